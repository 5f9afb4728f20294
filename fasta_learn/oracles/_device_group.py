"""Child processes that own a device each, and who of them measures which config."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from typing import Any

from fasta_learn.configs import config_key
from fasta_learn.oracles._child import ChildEndedError
from fasta_learn.oracles._device_child import DeviceChild, visible_device
from fasta_learn.oracles._measurement import Measurement

# While one config is measured, the next one waits in the child already.
_ASKED_AT_ONCE = 2
# The last configs that were announced; others are compiled when they are asked for.
_MOST_AHEAD = 256
_MOST_STARTS = 2


@dataclass
class _Request:
    config: Any
    key: str
    best: float | None = None


class DeviceGroup:
    """Measure configs on one or more devices, each in a child process of its own.

    A config that crashes its child, hangs or breaks the device fails, and is not tried
    again before `close`. What else was in that child goes to the next one. If several
    configs can be why a child has ended, each of them gets a child for itself alone
    when it is its turn.

    Parameters
    ----------
    make_server : callable
        Gives the pickled `DeviceServer`; called when the first child starts.
    devices : sequence of int
        Indices of the devices.
    n_threads : int
        How many configs each child compiles at a time.
    compile_timeout, run_timeout : float
        The most time that compiling and running a config may take, in s.

    Raises
    ------
    ValueError
        CUDA_VISIBLE_DEVICES hides a device.
    """

    def __init__(
        self,
        make_server: Callable[[], bytes],
        devices: Sequence[int],
        *,
        n_threads: int,
        compile_timeout: float,
        run_timeout: float,
    ) -> None:
        for device in devices:
            visible_device(device)  # raises if there is none, before a child starts
        self._make_server = make_server
        self._devices = list(devices)
        self._n_threads = n_threads
        self._timeouts = (compile_timeout, run_timeout)
        self._server: bytes | None = None
        self._children: list[DeviceChild] = []
        self._spare: DeviceChild | None = None
        self._wants_spare = False
        self._n_failed_starts: dict[int | None, int] = {}
        self._n_requests = 0
        self._requests: dict[int, _Request] = {}
        self._answers: dict[int, Measurement] = {}
        self._ahead: dict[str, Any] = {}
        self._home: dict[str, DeviceChild] = {}
        self._suspects: set[str] = set()
        self._condemned: dict[str, Measurement] = {}
        self._facts: dict[str, Any] | None = None

    def facts(self) -> dict[str, Any]:
        """Tell what kernel and device are; waits for the first child.

        Returns
        -------
        dict
            JSON can hold it.

        Raises
        ------
        ValueError
            The kernel can't be measured here.
        RuntimeError
            No child can be started.
        """
        while self._facts is None:
            self._step(starts_all=False)
        return self._facts

    def prepare(self, configs: Iterable[Any]) -> None:
        """Let the children compile configs ahead; returns soon.

        Parameters
        ----------
        configs : iterable
            In the order in which they will be asked for.
        """
        for config in reversed(list(configs)):  # what comes last is compiled first
            self._ahead.setdefault(config_key(config), config)
        while len(self._ahead) > _MOST_AHEAD:  # nobody has asked for the oldest
            self._home.pop(next(iter(self._ahead)), None)
            del self._ahead[next(iter(self._ahead))]
        with _Killing(self):
            self._start_children()
            for child in list(self._children):
                self._attend(child)
            self._hand_out()

    def submit(self, config: Any) -> int:
        """Ask for a measurement.

        Parameters
        ----------
        config : object
            The config.

        Returns
        -------
        int
            Number of the request.
        """
        number = self._n_requests
        self._n_requests += 1
        self._requests[number] = _Request(config, config_key(config))
        return number

    def result(self, number: int, best: float | None = None) -> Measurement:
        """Wait for the answer to a request.

        Parameters
        ----------
        number : int
            Number of the request.
        best : float or None, default=None
            Best duration so far, in ms, for all configs that no child has yet.

        Returns
        -------
        Measurement
            The answer.

        Raises
        ------
        ValueError
            The kernel can't be measured here.
        RuntimeError
            No child can be started.
        """
        for request in self._requests.values():
            request.best = best
        while number not in self._answers:
            self._step()
        self._requests.pop(number, None)
        return self._answers.pop(number)

    def forget(self, numbers: Iterable[int]) -> None:
        """Take back requests; their answers are dropped.

        Parameters
        ----------
        numbers : iterable of int
            Numbers of the requests.
        """
        for number in numbers:
            self._requests.pop(number, None)
            self._answers.pop(number, None)

    def close(self) -> None:
        """End all children, and forget which configs are not to be tried again."""
        for child in [*self._children, *([self._spare] if self._spare else [])]:
            child.close_now()
        self._children.clear()
        self._spare, self._wants_spare = None, False
        self._home.clear()
        self._ahead.clear()
        self._suspects.clear()
        self._condemned.clear()
        self._n_failed_starts.clear()

    def _step(self, *, starts_all: bool = True) -> None:
        """Let the children go on, and wait until one of them has something to say."""
        with _Killing(self):
            self._start_children(None if starts_all else 1)
            if self._hand_out():
                return
            due = min(child.deadline() for child in self._children)
            left = None if due == math.inf else max(0.0, due - time.monotonic())
            wait([c.connection for c in self._children if c.connection], left)
            for child in list(self._children):
                self._attend(child)

    def _start_children(self, n_most: int | None = None) -> None:
        """Start the children that are lacking, or the first ones of them."""
        for device in self._devices[len(self._children) : n_most]:
            self._children.append(self._start_child())
            self._children[-1].begin(device)

    def _start_child(self) -> DeviceChild:
        """Start a process that does not know its device yet."""
        if self._server is None:
            self._server = self._make_server()
        child = DeviceChild(self._server, *self._timeouts)
        child.start()
        return child

    def _end(self, child: DeviceChild) -> None:
        """End a child; what it had goes to the next one that is free."""
        child.kill()
        self._home = {k: home for k, home in self._home.items() if home is not child}
        position = self._children.index(child)
        spare, self._spare = self._spare, None
        if spare is not None and not spare.is_alive:
            spare.kill()
            spare = None
        self._children[position] = spare or self._start_child()
        self._children[position].begin(self._devices[position])
        self._wants_spare = True

    def _attend(self, child: DeviceChild) -> None:
        """Take the answers of a child, and see whether it is still well."""
        end = None
        try:
            child.read()
        except ChildEndedError as error:
            end = str(error)
        self._take_answers(child)
        if child.facts is not None:
            self._n_failed_starts.pop(child.device, None)
            self._learn(child.facts)
            # After one failure others are likely: the next child is to be ready then.
            if self._wants_spare and self._spare is None:
                self._spare = self._start_child()
        if child.refusal is not None:
            self._fail_to_start(child, *child.refusal)
        elif end is not None:
            self._on_end(child, end)
        elif child.is_broken:
            self._end(child)
        elif (late := child.overdue()) is not None:
            self._on_overdue(child, *late)

    def _learn(self, facts: dict[str, Any]) -> None:
        self._facts = self._facts or facts
        names = self._facts["device"], facts["device"]
        if names[0] != names[1]:
            raise ValueError(
                f"the devices differ ({names[0]} and {names[1]}), so that durations "
                "can't be compared; choose equal ones by devices=[...]."
            )

    def _take_answers(self, child: DeviceChild) -> None:
        for number, measurement in child.answers:
            request = self._requests.get(number)
            if request is None:  # it was taken back
                continue
            self._answers[number] = measurement
            self._ahead.pop(request.key, None)
            self._home.pop(request.key, None)
            self._suspects.discard(request.key)
            if child.is_broken:
                self._condemned[request.key] = measurement
        child.answers.clear()

    def _fail_to_start(self, child: DeviceChild, is_usage: bool, reason: str) -> None:
        if is_usage:
            raise ValueError(f"the kernel can't be measured: {reason}")
        n_failed = self._n_failed_starts.get(child.device, 0) + 1
        self._n_failed_starts[child.device] = n_failed
        if n_failed >= _MOST_STARTS:
            self._n_failed_starts.clear()
            raise RuntimeError(
                f"the child process for device {child.device} could not be started, "
                f"{n_failed} times in a row: {reason}. With isolate=False configs are "
                "measured in this process."
            )
        self._end(child)

    def _on_end(self, child: DeviceChild, reason: str) -> None:
        if child.facts is None:
            self._fail_to_start(child, False, reason)
            return
        suspects = child.suspects()
        if not suspects:  # it was at nothing that it has told of
            suspects = list(child.asked.values())[:1]
            if suspects and suspects[0] not in self._suspects:
                self._suspects.add(suspects[0])
                suspects = []
        if len(suspects) > 1:
            self._suspects.update(suspects)
        elif suspects:
            in_compiler = suspects[0] in child.compiling
            what = "compiled" if in_compiler else "ran"
            status = "compile_error" if in_compiler else "error"
            self._condemn(child, suspects[0], status, f"{reason} while it {what} this")
        self._end(child)

    def _on_overdue(self, child: DeviceChild, key: str | None, text: str) -> None:
        child.kill()
        if key is None:
            self._fail_to_start(child, False, text)
            return
        self._condemn(child, key, "timeout", text)
        self._end(child)

    def _condemn(self, child: DeviceChild, key: str, status: str, reason: str) -> None:
        """Let a config fail that has cost a child."""
        now = time.monotonic()
        compiling, running = child.compiling.get(key), child.running
        self._condemned[key] = Measurement.failed(
            status,
            reason,
            compile_seconds=None if compiling is None else now - compiling,
            run_seconds=now - running[1] if running and running[0] == key else None,
        )
        self._ahead.pop(key, None)
        self._suspects.clear()  # the others were not to blame

    def _hand_out(self) -> bool:
        """Send configs to the children; True if one needs no child for its answer."""
        is_answered = False
        asked = {n for child in self._children for n in child.asked}
        for number, request in list(self._requests.items()):
            if number in self._answers or number in asked:
                continue
            condemned = self._condemned.get(request.key)
            if condemned is not None:
                self._answers[number] = replace(condemned)
                is_answered = True
                continue
            is_suspect = request.key in self._suspects
            child = self._find_child(request.key, is_suspect)
            if child is not None:
                child.is_alone = is_suspect
                self._home[request.key] = child
                child.ask(number, request.config, request.key, request.best)
            elif is_suspect:  # all must come to rest, so that one is free for it
                return is_answered
        self._announce()
        return is_answered

    def _find_child(self, key: str, is_suspect: bool) -> DeviceChild | None:
        """Choose who measures a config; None if nobody should at present."""
        ready = [c for c in self._children if c.is_ready and not c.is_alone]
        if is_suspect:
            return next((child for child in ready if child.is_idle), None)
        home = self._home.get(key)
        if home is not None and home.is_ready and key not in home.compiled:
            ready = [child for child in ready if child is home]
        free = [child for child in ready if len(child.asked) < _ASKED_AT_ONCE]
        return min(
            free, key=lambda child: (len(child.asked), child is not home), default=None
        )

    def _announce(self) -> None:
        """Let each child compile its share of what comes next."""
        open_requests = [r for n, r in self._requests.items() if n not in self._answers]
        wanted = {r.key: r.config for r in open_requests} | self._ahead
        for key, config in wanted.items():
            if key in self._home or key in self._suspects or key in self._condemned:
                continue
            free = [child for child in self._children if self._has_free_thread(child)]
            if not free:
                return
            home = min(free, key=lambda child: child.n_compiling)
            self._home[key] = home
            home.announce(config, key)

    def _has_free_thread(self, child: DeviceChild) -> bool:
        is_open = child.is_ready and not child.is_alone
        return is_open and child.n_compiling < 2 * self._n_threads


class _Killing:
    """Leaves no child behind when an error or an interrupt goes through."""

    def __init__(self, group: DeviceGroup) -> None:
        self._group = group

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._group.close()
