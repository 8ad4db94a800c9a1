"""Flags of the services that tasks ask: what they need beside them, and when they do nothing."""

ADDRESS = {"env.server": "http://10.0.0.7"}
SERVED = {"env.verifier.math_port": 10008}
JUDGED = {"env.verifier.judge_enable": True, "env.verifier.judge_port": 10005}


def test_a_judging_model_needs_a_port_and_an_address(problems, resolved):
    for given in (JUDGED, ADDRESS | {"env.verifier.judge_enable": True}):
        (line,) = problems(given)
        assert line.startswith("--env.verifier.judge_enable: needs --env.verifier.judge_port, and --env.proxy_file")
    assert resolved(JUDGED | {"env.proxy_file": "proxy.txt"}).config.env.verifier.judge_port == 10005


def test_an_address_is_an_address(problems):
    (line,) = problems({"env.server": "10.0.0.7"})
    assert "http://10.0.0.7" in line


def idle(resolution) -> list[str]:
    return [line.split()[0] for line in resolution.warnings if "has no effect" in line]


def test_flags_that_ask_nobody_are_named(resolved):
    assert idle(resolved(SERVED)) == ["--env.verifier.math_port"]  # nobody says where
    assert idle(resolved(SERVED | ADDRESS)) == []
    assert idle(resolved({"env.verifier.math_timeout": 3.0, "env.verifier.judge_port": 1})) == [
        "--env.verifier.math_timeout",
        "--env.verifier.judge_port",
    ]
    assert idle(resolved(ADDRESS | {"env.proxy_file": "x"})) == ["--env.proxy_file"]
    another = {"env.verifier.math_url": "http://10.0.0.8:9000"}
    assert idle(resolved(ADDRESS | SERVED | another)) == ["--env.verifier.math_port"]


def test_flags_of_bad_examples_need_the_filter(resolved):
    mask = {"algo.bad_examples.loss_mask_enable": True, "algo.bad_examples.advantage_mask": "skip"}
    assert idle(resolved(mask)) == ["--algo.bad_examples.loss_mask_enable", "--algo.bad_examples.advantage_mask"]
    assert idle(resolved(mask | {"algo.bad_examples.filter_enable": True})) == ["--algo.bad_examples.advantage_mask"]
