import os
import pickle
import sys
import threading
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest
import simulated_specs as specs
import torch
from sample_kernels import scale_kernel

from fasta_learn._compat import cloudpickle
from fasta_learn.configs import config_key
from fasta_learn.oracles import TimingPlan, _triton_device
from fasta_learn.oracles._triton_child import DeviceServer, SpecSource
from fasta_learn.oracles._triton_kernel import Workload

# No call that ends comes near this many seconds, on however slow a machine.
LONG = 60.0


def make_server(source):
    server = DeviceServer(source, n_threads=1, plan=TimingPlan())
    return pickle.loads(server.to_bytes())


def scale_workload():
    x = torch.arange(64.0)
    return Workload(scale_kernel, [x, torch.zeros(64), 64], (1,))


@pytest.fixture
def serve(monkeypatch):
    """Serve in a thread instead of a process."""
    ours, theirs = Pipe()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "unset")
    interval = sys.getswitchinterval()
    threads = []

    def start(server, device="0"):
        thread = threading.Thread(target=server.serve, args=(theirs,), daemon=True)
        threads.append(thread)
        thread.start()
        ours.send(device)
        return ours

    yield start
    ours.send_bytes(b"")  # closing is not enough: what is forked here has `ours` too
    ours.close()
    for thread in threads:
        thread.join(LONG)
    theirs.close()
    sys.setswitchinterval(interval)


def receive(connection):
    assert connection.poll(LONG)
    return connection.recv()


@pytest.fixture
def simulated(simulate, monkeypatch):
    def start(**options):
        cuda = simulate(**options)
        clock = specs.OwnClock(cuda)
        monkeypatch.setattr(_triton_device, "CudaClock", lambda device: clock)
        return cuda

    return start


def send(connection, *message):
    connection.send_bytes(cloudpickle.dumps(message))


def test_server_tells_what_is_measured(simulated, serve):
    simulated()
    connection = serve(make_server(scale_workload()), device="3")
    kind, facts = receive(connection)
    assert kind == "ready"
    assert facts["device"] == "cuda:90"
    assert facts["versions"]["torch"] == torch.__version__
    assert facts["kernel"] == scale_workload().fingerprint()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"


def test_server_tells_each_step_of_a_measurement(simulated, serve):
    simulated(duration=0.5)
    connection = serve(make_server(scale_workload()))
    receive(connection)
    config = {"BLOCK": 32}
    send(connection, "measure", 7, config, None)
    messages = [receive(connection) for _ in range(4)]
    assert [message[0] for message in messages] == [
        "compiling",
        "compiled",
        "running",
        "done",
    ]
    assert all(message[1] == config_key(config) for message in messages[:3])
    _, number, measurement, broken = messages[3]
    assert (number, measurement.duration, broken) == (7, 0.5, False)


def test_server_compiles_what_is_announced(simulated, serve):
    cuda = simulated()
    connection = serve(make_server(scale_workload()))
    receive(connection)
    send(connection, "prepare", {"BLOCK": 64})
    assert [receive(connection)[0] for _ in range(2)] == ["compiling", "compiled"]
    assert cuda.loads == []


def test_server_takes_config_objects_with_lambdas(simulated, serve):
    simulated(duration=0.5)
    connection = serve(make_server(scale_workload()))
    receive(connection)
    config = SimpleNamespace(kwargs={"BLOCK": 64}, pre_hook=lambda args: None)
    send(connection, "measure", 0, config, None)
    assert [receive(connection)[0] for _ in range(4)][-1] == "done"


def test_server_without_device_refuses(serve):
    connection = serve(make_server(scale_workload()))
    kind, is_usage, text = receive(connection)
    assert (kind, is_usage) == ("refused", True)
    assert "finds no device" in text


def test_server_refuses_what_the_spec_refuses(serve):
    connection = serve(make_server(SpecSource("simulated_specs:refuse", {})))
    kind, is_usage, text = receive(connection)
    assert (kind, is_usage) == ("refused", True)
    assert "there is no such shape" in text


def test_error_of_the_device_is_not_the_users(serve, monkeypatch):
    def fail():
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr("fasta_learn.oracles._triton_child.describe_device", fail)
    connection = serve(make_server(scale_workload()))
    assert receive(connection)[:2] == ("refused", False)


def test_server_prints_nothing_while_it_measures(simulated, serve, capsys):
    simulated()
    connection = serve(make_server(scale_workload()))
    receive(connection)
    config = SimpleNamespace(
        kwargs={"BLOCK": 64}, pre_hook=lambda args: sys.stdout.write("ptx")
    )
    send(connection, "measure", 0, config, None)
    while receive(connection)[0] != "done":
        pass
    assert capsys.readouterr().out == ""


def test_kernel_that_no_child_can_import_is_an_error():
    kernel = pickle.loads(pickle.dumps(scale_workload()))._jit
    kernel.__module__ = kernel.fn.__module__ = "__main__"
    try:
        with pytest.raises(ValueError, match="import"):
            make_server(Workload(kernel, [torch.zeros(1)] * 2 + [1], (1,)))
    finally:
        kernel.__module__ = kernel.fn.__module__ = "sample_kernels"
