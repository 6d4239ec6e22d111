"""Holds the user of an open graph to a policy, and keeps the audit log.

Nobody gets the storage of a graph without saying which action it is for (`GraphInternals.reader` and `writer`). What is
handed out then carries an `ActionGuard`: states that are read lack the types that may not be seen, and a write is
refused before it is recorded when it touches a type that may not be changed. A type that may not be seen is as if it
did not exist: it is in no catalog, no listing and no count, and whoever names it is told that there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph import ids
from omnigraph.errors import AuditFailed, BranchNotFound, CommitNotFound, OmniGraphError, PolicyDenied, TagNotFound
from omnigraph.logs import POLICY
from omnigraph.policy.actions import ACTIONS
from omnigraph.policy.audit_log import REQUEST_ID
from omnigraph.schema.shown_part import hidden_types
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot

if TYPE_CHECKING:
    from omnigraph.policy.access_policy import Policy
    from omnigraph.policy.audit_log import AuditLog
    from omnigraph.policy.decision import AccessDecision

#: Actions whose states lack what may not be seen. All others work on whole states.
_LOOKS = ("read", "export")


@dataclass(frozen=True, slots=True)
class Guard:
    """What one actor may see of one graph and do to it.

    Attributes:
        policy: None allows everything; then only the audit log is kept.
    """

    store: GraphStore
    schemas: SchemaRegistry
    actor: str | None
    policy: Policy | None
    audit: AuditLog | None

    def require(self, action: str, branch: str | None = None, target: str | None = None) -> None:
        """Decide about an action, and record it.

        Raises:
            PolicyDenied: no rule allows it.
            AuditFailed: it cannot be recorded.
        """
        if not self.decide(action, branch, target):
            raise _denied(self._decision(action, branch, target))
        if action == "schema_apply":
            self._require_whole_schema()

    def decide(self, action: str, branch: str | None = None, target: str | None = None) -> bool:
        """Whether an action is allowed, recorded."""
        decision = self._decision(action, branch, target)
        self._record(action, branch, target, decision)
        return decision is None or decision.allowed

    def require_found(self, action: str, branch: str, moment: object) -> None:
        """The same for a state that was found by a commit, a tag, a version or a time: one that may not be seen is as
        if it did not exist."""
        if not self.decide(action, branch):
            raise _unknown(moment)

    @contextmanager
    def finding(self, moment: object) -> Iterator[None]:
        """Inside, a tag that does not exist is reported without the names of others."""
        try:
            yield
        except TagNotFound:
            raise _unknown(moment) from None

    def store_for(self, action: str, branch: str | None = None, target: str | None = None) -> GraphStore:
        """The storage for an action that was allowed."""
        return self.store.guarded(ActionGuard(self, action, branch, target, REQUEST_ID.get()))

    def may(self, action: str, branch: str | None, target: str | None = None, type_: str | None = None) -> bool:
        """Whether an action is allowed; part of another decision, and not recorded."""
        decision = self._decision(action, branch, target, type_)
        return decision is None or decision.allowed

    def without_types(self, snapshot: ManifestSnapshot, actions: tuple[str, ...]) -> ManifestSnapshot:
        """A state without the types that none of some actions is allowed for."""
        policy = self.policy
        if policy is None or not any(map(policy.limits_types, actions)):
            return snapshot
        unknown = {
            key
            for key in snapshot.pins
            if not any(self.may(action, snapshot.branch, type_=_type_of(key)) for action in actions)
        }
        if not unknown:
            return snapshot
        return snapshot.without(hidden_types(self.schemas.of(snapshot.whole).catalog, unknown))

    def _require_whole_schema(self) -> None:
        """Whoever sees a part of the schema cannot say what the whole is to become: the rest would be dropped."""
        main = self.store.snapshot(ids.MAIN)
        if self.may("read", ids.MAIN) and self.without_types(main, ("read",)).withheld:
            raise PolicyDenied(
                "a schema is changed by somebody who may read all of it", actor=self.actor, action="schema_apply"
            )

    def _decision(
        self, action: str, branch: str | None = None, target: str | None = None, type_: str | None = None
    ) -> AccessDecision | None:
        return None if self.policy is None else self.policy.decide(self.actor, action, branch, target, type_)

    def _record(
        self,
        action: str,
        branch: str | None,
        target: str | None,
        decision: AccessDecision | None,
        types: list[str] | None = None,
        request_id: str | None = None,
    ) -> None:
        if self.audit is None:
            return
        self.audit.write(
            "decision",
            request_id=request_id or REQUEST_ID.get(),
            actor=self.actor,
            action=action,
            branch=branch,
            target_branch=target,
            types=types,
            decision=None if decision is None else "allow" if decision.allowed else "deny",
            rule=None if decision is None else decision.matched_rule,
            commit=None,
        )


@dataclass(frozen=True, slots=True)
class ActionGuard:
    """Goes with the storage that was given for one action; see `StoreGuard`.

    Attributes:
        request_id: the request that asked for it. The thread that makes the commit may be that of another one.
    """

    guard: Guard
    action: str
    branch: str | None
    target: str | None
    request_id: str | None

    def require(self, action: str, branch: str | None = None, target: str | None = None) -> None:
        self.guard.require(action, branch, target)

    def sees(self, branch: str) -> bool:
        return self.action not in _LOOKS or self.guard.may(self.action, branch)

    def seen(self, snapshot: ManifestSnapshot) -> ManifestSnapshot:
        if self.action not in _LOOKS:
            return snapshot
        if not self.sees(snapshot.branch):
            name = snapshot.branch
            raise BranchNotFound(f"there is no branch '{name}'", hint="list them with branches.list()", branch=name)
        return self.guard.without_types(snapshot, (self.action,))

    def named(self, snapshot: ManifestSnapshot) -> ManifestSnapshot:
        return self.guard.without_types(snapshot, ("read", "change"))

    def permit(self, table_keys: Iterable[str]) -> None:
        guard = self.guard
        if guard.policy is None or not ACTIONS[self.action].has_types or not guard.policy.limits_types(self.action):
            return
        for key in sorted(table_keys):
            name = _type_of(key)
            decision = guard.policy.decide(guard.actor, self.action, self.branch, self.target, name)
            if not decision.allowed:
                guard._record(self.action, self.branch, self.target, decision, [name], self.request_id)
                if self._is_shown(key):
                    raise _denied(decision)
                raise PolicyDenied(
                    "the policy denies this change: it reaches rows of a type that the actor may not change",
                    actor=guard.actor,
                    action=self.action,
                )

    def _is_shown(self, table_key: str) -> bool:
        """Whether a type that is to be changed may be named to the actor."""
        try:
            changed = self.guard.store.snapshot(self.target or self.branch or ids.MAIN)
        except BranchNotFound:
            return False
        return table_key in self.named(changed).pins

    def told(self, commit: Commit) -> Commit:
        guard, rows = self.guard, commit.note.get("rows")
        if guard.policy is None or not rows or not guard.policy.limits_types("read"):
            return commit
        unknown = {key for key in rows if not guard.may("read", commit.branch, type_=_type_of(key))}
        hidden = hidden_types(guard.schemas.newest().catalog, unknown)
        shown = {key: counts for key, counts in rows.items() if key not in hidden}
        return replace(commit, note={**commit.note, "rows": shown})

    def committed(self, commit: Commit) -> None:
        """The commit is visible: a record that cannot be written takes nothing back. The decision was recorded before,
        and the history names the actor."""
        guard = self.guard
        if guard.audit is None:
            return
        try:
            guard.audit.write(
                "write",
                request_id=self.request_id,
                actor=guard.actor,
                action=self.action,
                branch=commit.branch,
                target_branch=self.target,
                types=sorted({_type_of(key) for key in commit.rows}),
                decision=None,
                rule=None,
                commit=commit.id,
            )
        except AuditFailed as error:
            POLICY.error("the record of commit %s is missing: %s", commit.id, error.message)


def _denied(decision: AccessDecision | None) -> PolicyDenied:
    assert decision is not None
    asked = decision.request
    details = {"branch": asked.branch, "target_branch": asked.target_branch, "type": asked.type}
    given = {name: value for name, value in details.items() if value is not None}
    hint = "open the graph with actor=…" if asked.actor is None else None
    return PolicyDenied(decision.message, hint=hint, actor=asked.actor, action=asked.action, **given)


def _unknown(moment: object) -> OmniGraphError:
    """What is said of a commit or a tag that does not exist."""
    if isinstance(moment, str):
        moment = moment.strip()  # as it is looked for
    tag = ids.tag_in(moment) if isinstance(moment, str) else None
    if tag is not None:
        return TagNotFound(f"there is no tag '{tag}'", hint="list them with tags.list()", tag=tag)
    return CommitNotFound(f"there is no commit {moment!r}", commit_id=str(moment))


def _type_of(table_key: str) -> str:
    return table_key.partition(":")[2]
