"""Creates schemas and databases with policies of their own (TT-12, TT-13, ML-29).

SQL statements call it. It is apart from `retention/policies.py`, because the policies must apply
from the object's first moment.
"""

from collections.abc import Mapping

from meltline.app.catalog.new_names import is_there, require_free, require_outer
from meltline.app.catalog.resolve import require_changeable
from meltline.app.catalog.tables import levels_around
from meltline.app.safety.audit import audit
from meltline.app.services import ReadContext
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.retention.policy import effective_retention
from meltline.domain.retention.policy_rules import require_allowed


def create_container(
    context: ReadContext, name: ObjectName, policies: Mapping[str, str], *, if_not_exists: bool
) -> tuple[str, ...] | None:
    """Creates a schema or database that has these policies from its first moment.

    Returns:
        Warnings about the policies; None if the object existed already.

    Raises:
        NameConflict: It exists already, and `if_not_exists` is false.
        NamespaceNotFound: The database of a schema does not exist.
        RetentionOutOfRange: The profile does not allow a policy.
        CatalogReadOnly: The catalog cannot be changed from here.
    """
    catalog = require_changeable(context, name)
    listing = catalog.listing()
    if if_not_exists and is_there(name, listing):
        return None
    require_free(name, listing)
    require_outer(name, listing)
    account = context.config.account
    levels = [(str(name), policies), *levels_around(context, name, listing)[1:]]
    require_allowed(account.profile, name, policies, levels)
    context.registrars[catalog.name].create([], {name.namespace: policies})
    context.control.policies.save({str(name): policies})
    settings = [f"{key}: new -> {setting}" for key, setting in policies.items()]
    audit(context, "policy", str(name), detail="; ".join(settings))
    return effective_retention(account, levels).warnings
