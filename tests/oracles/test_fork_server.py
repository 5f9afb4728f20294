import importlib
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection

import pytest

from fasta_learn.oracles import _fork_server
from fasta_learn.oracles._fork_server import ForkServer


def answer_with_ids(connection):
    while connection.recv():
        connection.send((os.getpid(), os.getppid()))


def import_a_module(connection):
    module = importlib.import_module(connection.recv())
    connection.send(module.ANSWER)


@pytest.fixture
def open_server():
    opened = []

    def open_one(serve=answer_with_ids, prepare=lambda: None):
        opened.append(ForkServer(prepare, serve))
        return opened[-1]

    yield open_one
    for server in opened:
        server.close()


def ask(connection, question=True):
    connection.send(question)
    assert connection.poll(20)
    return connection.recv()


def test_each_process_serves_its_own_connection(open_server):
    server = open_server()
    forked = [server.fork() for _ in range(3)]
    answers = [ask(connection) for _, connection in forked]
    assert [pid for pid, _ in answers] == [pid for pid, _ in forked]
    assert len({pid for pid, _ in forked}) == 3
    (parent,) = {parent for _, parent in answers}
    assert parent not in (os.getpid(), os.getppid())


def test_many_threads_may_fork_at_once(open_server):
    server = open_server()
    pids = []

    def fork_and_end():
        for _ in range(5):
            pid, connection = server.fork()
            with connection:
                pids.append((pid, ask(connection)[0]))
                server.end(pid)

    threads = [threading.Thread(target=fork_and_end) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pids) == 20
    assert all(pid == told for pid, told in pids)


def test_prepare_is_called_once_in_the_server(open_server):
    calls = []

    def prepare():
        calls.append(os.getpid())

    def tell(connection):
        connection.send(calls)

    server = open_server(tell, prepare)
    answers = [server.fork()[1].recv() for _ in range(2)]
    assert answers[0] == answers[1] != [os.getpid()]
    assert len(answers[0]) == 1
    assert calls == []


def test_an_import_in_another_thread_does_not_hang_what_is_forked(
    open_server, tmp_path, monkeypatch
):
    # The thread holds the module's lock, which a direct fork would inherit.
    name = "module_that_imports_slowly"
    (tmp_path / f"{name}.py").write_text(
        f"import os, sys\nif os.getpid() == {os.getpid()}:\n"
        "    sys.importing.set()\n    sys.go_on.wait(60)\nANSWER = 42\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "importing", threading.Event(), raising=False)
    monkeypatch.setattr(sys, "go_on", threading.Event(), raising=False)
    server = open_server(import_a_module)
    thread = threading.Thread(target=importlib.import_module, args=(name,))
    thread.start()
    try:
        assert sys.importing.wait(20)
        assert ask(server.fork()[1], name) == 42
    finally:
        sys.go_on.set()
        thread.join()
        sys.modules.pop(name, None)


def test_ending_kills_and_leaves_no_zombie(open_server, processes):
    server = open_server(lambda connection: time.sleep(1000))
    (first, connection), (second, _) = server.fork(), server.fork()
    server.end(first)
    assert not os.path.exists(f"/proc/{first}")
    assert processes.is_alive(second)
    with pytest.raises(EOFError):
        connection.recv()


def test_closing_ends_all_that_is_forked_also_what_hangs(open_server, processes):
    server = open_server(lambda connection: time.sleep(1000))
    pids = [server.fork()[0] for _ in range(3)]
    server.close()
    assert not any(map(processes.is_alive, pids))
    server.end(pids[0])  # nothing is left to do
    with pytest.raises(OSError):
        server.fork()


def test_what_is_forked_ends_when_this_end_is_closed(open_server, processes):
    pid, connection = open_server().fork()
    connection.close()
    assert processes.wait_until_gone(pid)


def test_error_in_a_process_stays_there(open_server):
    def fail(connection):
        raise ValueError("mine")

    server = open_server(fail)
    _, connection = server.fork()
    with pytest.raises(EOFError):
        connection.recv()
    assert isinstance(server.fork()[1], Connection)  # the server goes on


def test_server_that_was_killed_is_told_of(open_server, processes):
    server = open_server()
    server_pid = ask(server.fork()[1])[1]
    os.kill(server_pid, signal.SIGKILL)
    assert processes.wait_until_gone(server_pid)
    with pytest.raises(OSError):
        server.fork()


def test_server_that_hangs_is_killed(open_server, monkeypatch):
    monkeypatch.setattr(_fork_server, "_ANSWER_SECONDS", 0.2)
    server = open_server(prepare=lambda: time.sleep(1000))
    for _ in range(2):  # the second time there is nobody any more
        with pytest.raises(OSError):
            server.fork()


def test_platform_that_cannot_fork_is_told_of(monkeypatch):
    def refuse(method):
        raise ValueError(f"cannot find context for {method!r}")

    monkeypatch.setattr(_fork_server.multiprocessing, "get_context", refuse)
    with pytest.raises(OSError, match="this platform can't fork"):
        ForkServer(lambda: None, answer_with_ids)
