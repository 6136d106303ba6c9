"""Lists the jars by their coordinates, each with its expected checksum."""

from collections.abc import Collection
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Jar:
    """One line of a list.

    Attributes:
        coordinates: group:artifact:version, and a classifier if it has one.
        sha256: Checksum of the jar.
        feature: Feature that needs it; empty for jars that every app needs.
    """

    coordinates: str
    sha256: str
    feature: str = ""

    @property
    def name(self) -> str:
        """The file name, which a session looks for."""
        return "-".join(self.coordinates.split(":")[1:]) + ".jar"

    @property
    def ivy_file(self) -> str:
        """The jar in Ivy's module descriptor, for Ivy's command line has no classifiers."""
        group, artifact, version, name = (*self.coordinates.split(":"), "")[:4]
        classifier = f' m:classifier="{name}"' if name else ""
        return (
            '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
            '<info organisation="meltline" module="jars"/><dependencies>'
            f'<dependency org="{group}" name="{artifact}" rev="{version}" transitive="false">'
            f'<artifact name="{artifact}" type="jar" ext="jar"{classifier}/>'
            "</dependency></dependencies></ivy-module>"
        )


def jars_of(text: str) -> list[Jar]:
    """Parses a list of jars: coordinates, checksum and maybe a feature in each line."""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return [Jar(*line.split()) for line in lines]


def own_jars() -> list[Jar]:
    """Returns the jars that an installed Meltline may need, with any features."""
    return jars_of(files(__package__).joinpath("jars.txt").read_text("utf-8"))


def wanted(jars: Collection[Jar], features: Collection[str]) -> list[Jar]:
    """Returns the jars that every app needs, and those of the features."""
    return [jar for jar in jars if jar.feature in {"", *features}]
