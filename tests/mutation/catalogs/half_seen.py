"""Ways to delete what another branch of a Nessie needs."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

TESTS = ("tests/unit/safety/test_half_seen.py",)
PLACES = "app/ownership/half_seen.py"

HALF_SEEN_PLACES = (
    Mutation(
        "half seen: a plan names what lies there",
        "app/observe/held_back.py",
        "    half_seen = remembered_places(context.control.places)\n    return Confinement(context.config.roots, context.resolver, half_seen)\n",
        "    return Confinement(context.config.roots, context.resolver)\n",
        TESTS,
    ),
    Mutation(
        "half seen: the gate does not ask the catalogs",
        "app/gate/evidence.py",
        "    return HalfSeenPlaces([*places, *sources.places.half_seen()])\n",
        "    return HalfSeenPlaces(sources.places.half_seen())\n",
        TESTS,
    ),
    Mutation(
        "half seen: the gate does not ask the ledger",
        "app/gate/evidence.py",
        "    return HalfSeenPlaces([*places, *sources.places.half_seen()])\n",
        "    return HalfSeenPlaces(places)\n",
        TESTS,
    ),
    Mutation(
        "half seen: the last proof does not look",
        "app/purge/recheck.py",
        "        elsewhere |= {path for path, why in refused.items() if why is Why.HALF_SEEN}\n",
        "",
        TESTS,
    ),
    Mutation(
        "half seen: what deletes does not look",
        PLACES,
        "        config.roots, resolver, remembered_places(control.places)\n",
        "        config.roots, resolver\n",
        TESTS,
    ),
    Mutation(
        "half seen: where tables lie is not remembered",
        PLACES,
        "            seen += [(place, name) for place in (*state.owned_locations, folder)]\n",
        "            pass\n",
        TESTS,
    ),
    Mutation(
        "half seen: where gone tables lay is not asked",
        PLACES,
        "    seen += [(own.prefix, whose[own.table_uuid]) for own in owned]\n",
        "",
        TESTS,
    ),
    Mutation(
        "half seen: other names of a bucket are other places",
        PLACES,
        "    return {path for path in paths if half_seen.holds(path) and _is_there(store, path)}\n",
        "    return set()\n",
        TESTS,
    ),
    Mutation(
        "half seen: links are not followed there",
        "app/ownership/confinement.py",
        "        if folder.leads_into_half_seen or self._half_seen.holds(path):\n",
        "        if self._half_seen.holds(path):\n",
        TESTS,
    ),
    Mutation(
        "half seen: what a probe came to is forgotten",
        "app/safety/server_probe.py",
        "    return listing.half_seen or (verdict.half_seen if verdict else ())\n",
        "    return listing.half_seen\n",
        TESTS,
    ),
    Mutation(
        "half seen: the hot catalog is managed all the same",
        "app/safety/server_probe.py",
        "    if listing.half_seen:\n        return HALF_SEEN\n",
        "",
        TESTS,
    ),
)
