"""How a store of an older Treadle becomes one of this Treadle; run by `treadle.store.migrate`."""
