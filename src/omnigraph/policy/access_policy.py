"""`Policy`: the rules of one file, and what they decide. A file that changes is read again by itself."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from omnigraph import limits
from omnigraph.errors import InputError, OmniGraphError
from omnigraph.ids import did_you_mean
from omnigraph.logs import POLICY
from omnigraph.lru import LruCache
from omnigraph.policy.actions import ACTIONS, Kind
from omnigraph.policy.bundle import Bundle
from omnigraph.policy.cedar_rules import CedarRules
from omnigraph.policy.decision import AccessDecision, AccessRequest
from omnigraph.policy.policy_cases import CaseReport, read_cases, run_cases
from omnigraph.policy.policy_file import read_bundle


class Policy:
    """Decides who may do what. Get one from `from_file` or `from_text`; threads and graphs may share it.

    Example:
        >>> policy = og.Policy.from_text('''
        ... version: 1
        ... groups: {team: [act-ana, act-bo]}
        ... protected_branches: [main]
        ... rules:
        ...   - id: team-write
        ...     allow: {actors: {group: team}, actions: [change], branch_scope: unprotected}
        ... ''')
        >>> policy.decide("act-bo", "change", branch="review/x").allowed
        True
        >>> policy.decide("act-bo", "change", branch="main").message
        "the policy denies action 'change' on branch 'main' to actor 'act-bo'"
    """

    def __init__(self, text: str, file: str | None, graph: str, kind: Kind) -> None:
        self._file = file
        self._graph = graph
        self._kind: Kind = kind
        self._lock = threading.Lock()
        self._stamp: object = None
        self._rules = _Rules(read_bundle(text, file, kind), graph)

    @classmethod
    def from_text(cls, text: str, *, graph: str = "graph", kind: Kind = "graph") -> Policy:
        """A policy that stays as it is.

        Args:
            graph: id of the graph that it is for, where there are several.
            kind: ``server`` for the rules of a server with several graphs.

        Raises:
            PolicyError: the text breaks a rule of its language.
            MissingExtra: cedarpy is not installed.
        """
        if text.endswith((".yaml", ".yml")) and len(text.split()) == 1:
            raise InputError(f"{text!r} is the name of a file, given as text", hint="use Policy.from_file")
        return cls(text, None, graph, kind)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, graph: str = "graph", kind: Kind = "graph") -> Policy:
        """A policy that follows its file: each decision looks whether the file changed. One that became wrong or went
        away changes nothing; the last good rules hold, and the logger ``omnigraph.policy`` says so.

        Raises:
            PolicyError: the file breaks a rule of its language.
            InputError: the file cannot be read.
            MissingExtra: cedarpy is not installed.
        """
        file = os.fspath(path)
        stamp = _stamp(file)
        found = cls(_content(file), file, graph, kind)
        found._stamp = stamp
        return found

    @property
    def name(self) -> str:
        """What the policy is called: its file without the ending."""
        return Path(self._file).stem if self._file is not None else "policy"

    @property
    def bundle(self) -> Bundle:
        """The rules that hold now."""
        return self._current().bundle

    @property
    def cedar(self) -> str:
        """The rules as Cedar policies."""
        return self._current().cedar.text

    def decide(
        self,
        actor: str | None,
        action: str,
        branch: str | None = None,
        target_branch: str | None = None,
        type: str | None = None,
    ) -> AccessDecision:
        """Whether an actor may do something, and why.

        Args:
            action: as in the file, or with hyphens.
            branch: without it only rules for every branch count.
            type: a node or edge type; None asks whether it is allowed for any type.

        Raises:
            InputError: there is no such action.
        """
        return self._current().decide(
            AccessRequest(actor, known_action(action), _trimmed(branch), _trimmed(target_branch), type)
        )

    def limits_types(self, action: str) -> bool:
        """Whether a rule grants an action for some types only."""
        return action in self.bundle.limited_actions

    def test(self, cases: str | os.PathLike[str]) -> CaseReport:
        """Compare decisions with what a file of cases expects.

        Args:
            cases: the path of the file, or its text.
        """
        file = os.fspath(cases) if isinstance(cases, os.PathLike) else None
        text = _content(file) if file is not None else str(cases)
        return run_cases(read_cases(text, file), self._current().decide)

    def __repr__(self) -> str:
        return f"Policy({self.name!r}, {len(self.bundle.rules)} rules, {len(self.bundle.actors)} actors)"

    def _current(self) -> _Rules:
        if self._file is not None and (stamp := _stamp(self._file)) != self._stamp:
            with self._lock:
                if stamp != self._stamp:
                    self._read_again(self._file)
                    self._stamp = stamp
        return self._rules

    def _read_again(self, file: str) -> None:
        try:
            self._rules = _Rules(read_bundle(_content(file), file, self._kind), self._graph)
            POLICY.info("%s was read again: %d rules", file, len(self._rules.bundle.rules))
        except OmniGraphError as error:
            POLICY.error("%s changed and cannot be used; the rules from before hold: %s", file, error.message)


class _Rules:
    """One reading of a file, with the decisions that were asked for last."""

    def __init__(self, bundle: Bundle, graph: str) -> None:
        self.bundle = bundle
        self.cedar = CedarRules(bundle, graph)
        self._decided: LruCache[AccessRequest, AccessDecision] = LruCache(max_entries=limits.POLICY_DECISIONS)

    def decide(self, request: AccessRequest) -> AccessDecision:
        return self._decided.get_or_make(request, lambda: self._decide(request))

    def _decide(self, request: AccessRequest) -> AccessDecision:
        is_known = request.actor in self.bundle.actors
        rules = self.cedar.decide(request) if is_known else ()
        verb = "allows" if rules else "denies"
        who = "a request without an actor" if request.actor is None else f"actor '{request.actor}'"
        if request.actor is not None and not is_known:
            who = f"unknown {who}: no rule of the policy names this actor"
        return AccessDecision(request, rules, f"the policy {verb} {_deed(request)} to {who}")


def _deed(request: AccessRequest) -> str:
    named = (("branch", request.branch), ("target branch", request.target_branch), ("type", request.type))
    places = " and ".join(f"{what} '{name}'" for what, name in named if name is not None)
    return f"action '{request.action}'{f' on {places}' if places else ''}"


def known_action(name: str) -> str:
    """An action as a caller writes it.

    Raises:
        InputError: there is none.
    """
    found = name.strip().replace("-", "_")
    if found not in ACTIONS:
        raise InputError(f"there is no action '{name}'", hint=did_you_mean(found, ACTIONS))
    return found


def _trimmed(branch: str | None) -> str | None:
    return None if branch is None else branch.strip()


def _stamp(file: str) -> tuple[int, ...] | None:
    """Tells one content of a file from another; None when it is away."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _content(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text: byte {error.start} fits no character", file=file) from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}", file=file) from None
