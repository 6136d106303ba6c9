"""`make down`: stops exactly what `make up` started, also what a crash has left."""

from demo.airflow import Airflow
from demo.place import Place
from demo.processes import end, of_home


def main() -> None:
    """Ends everything that runs in the demo's Airflow home, gently first."""
    place = Place()
    home = Airflow(place.root / "airflow").home
    ended = end(lambda: of_home(home))
    (place.root / "up.json").unlink(missing_ok=True)
    print(f"Stopped: {ended} processes." if ended else "Nothing of ours is running.")


if __name__ == "__main__":
    main()
