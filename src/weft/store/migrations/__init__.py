"""How a store of an older Weft becomes one of this Weft; run by `weft.store.migrate`."""
