"""What the daemon says of itself."""

from tests.control.daemons import daemon


def test_status_names_the_state_folder_and_the_engine() -> None:
    with daemon("--engine", "memory") as here:
        found = here.client.status()
        assert (found.state_folder, found.engine) == (str(here.state), "memory")
