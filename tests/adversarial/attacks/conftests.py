"""Attacks by a conftest.py of somebody's own: fixtures, hooks, items, patches."""

from __future__ import annotations

from tests.adversarial.attacks.attack import hook

_FIXTURE = """
@pytest.fixture{arguments}
def {name}():
    return type("Verdict", (), {{"failed": False}})()
"""
_TESTS = "@pytest.hookimpl(tryfirst=True)\ndef pytest_collection_modifyitems(items):\n    "
_OTHER = """
class Other(pytest.Item):
    def runtest(self):
        pass

"""


def _finish(body: str, how: str = "tryfirst=True") -> str:
    return f"@pytest.hookimpl({how})\ndef pytest_sessionfinish(session, exitstatus):\n    {body}\n"


CONFTESTS = {
    "fixture verdict": hook(_FIXTURE.format(name="verdict", arguments="")),
    "fixture compiled": hook(_FIXTURE.format(name="compiled", arguments="")),
    "fixture busbw_verdict": hook(_FIXTURE.format(name="busbw_verdict", arguments="")),
    "fixture busbw_verdict of the session": hook(
        _FIXTURE.format(name="busbw_verdict", arguments="(scope='session')")
    ),
    "autouse that skips": hook(
        "@pytest.fixture(autouse=True)\ndef skip():\n    pytest.skip('no time')\n"
    ),
    "autouse that xfails": hook(
        "@pytest.fixture(autouse=True)\ndef xfail():\n    pytest.xfail('known')\n"
    ),
    "autouse that exits": hook(
        "@pytest.fixture(autouse=True)\ndef leave():\n    pytest.exit('well', returncode=0)\n"
    ),
    "protocol of one's own": hook(
        "def pytest_runtest_protocol(item, nextitem):\n    return True\n"
    ),
    "loop of one's own": hook("def pytest_runtestloop(session):\n    return True\n"),
    "call of one's own": hook("def pytest_pyfunc_call(pyfuncitem):\n    return True\n"),
    "setup that skips": hook("def pytest_runtest_setup(item):\n    pytest.skip('no')\n"),
    "call that skips": hook("def pytest_runtest_call(item):\n    pytest.skip('no')\n"),
    "call that is replaced": hook(
        "@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
        "def pytest_runtest_call(item):\n    try:\n        yield\n    except BaseException:\n"
        "        pass\n"
    ),
    "reports that pass": hook(
        "@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
        "def pytest_runtest_makereport(item, call):\n    report = yield\n"
        "    report.outcome = 'passed'\n    report.longrepr = None\n    return report\n"
    ),
    "words that pass": hook(
        "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_report_teststatus(report):\n    return 'passed', '.', 'PASSED'\n"
    ),
    "marks xfail": hook(
        _TESTS + "for item in items:\n        item.add_marker(pytest.mark.xfail)\n"
    ),
    "marks skip": hook(_TESTS + "for item in items:\n        item.add_marker(pytest.mark.skip)\n"),
    "marks skipif": hook(
        _TESTS + "for item in items:\n"
        "        item.add_marker(pytest.mark.skipif(True, reason='no'))\n"
    ),
    "items emptied": hook(_TESTS + "items.clear()\n"),
    "items replaced": hook(
        _OTHER + _TESTS + "items[:] = [Other.from_parent(items[0].parent, name='other')]\n"
    ),
    "items replaced at the end": hook(
        _OTHER + "@pytest.hookimpl(trylast=True)\ndef pytest_collection_finish(session):\n"
        "    session.items[:] = [Other.from_parent(session, name='other')]\n"
    ),
    "items deselected": hook(
        _OTHER + "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_collection_modifyitems(session, config, items):\n"
        "    config.hook.pytest_deselected(items=list(items))\n"
        "    items[:] = [Other.from_parent(session, name='other')]\n"
    ),
    "items deselected as if asked": hook(
        _OTHER + "@pytest.hookimpl(trylast=True)\n"
        "def pytest_collection_modifyitems(session, config, items):\n"
        "    config.option.keyword = 'other'\n"
        "    config.hook.pytest_deselected(items=list(items))\n"
        "    items[:] = [Other.from_parent(session, name='other')]\n"
    ),
    "a keyword of one's own": hook(
        _OTHER + "def pytest_configure(config):\n"
        "    config.known_args_namespace.keyword = config.option.keyword = 'other'\n\n"
        "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_collection_modifyitems(session, items):\n"
        "    items.append(Other.from_parent(session, name='other'))\n"
    ),
    "items that do nothing": hook(_TESTS + "for item in items:\n        item.runtest = int\n"),
    "nothing is collected": hook("def pytest_ignore_collect(collection_path):\n    return True\n"),
    "no tests are made": hook(
        "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_pycollect_makeitem(collector, name, obj):\n    return []\n"
    ),
    "parameters are taken away": hook(
        "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_generate_tests(metafunc):\n"
        "    if 'busbw_verdict' in metafunc.fixturenames:\n"
        "        metafunc.parametrize('busbw_verdict', [], indirect=True)\n"
    ),
    "exit code set before": hook(_finish("session.exitstatus = 0")),
    "exit code set after": hook(_finish("session.exitstatus = 0", "trylast=True")),
    "exit code set around": hook(
        _finish("yield\n    session.exitstatus = 0", "wrapper=True, tryfirst=True")
    ),
    "exit in the end": hook(_finish("pytest.exit('well', returncode=0)")),
    "exit code at unconfigure": hook(
        "def pytest_sessionstart(session):\n    session.config.kept = session\n\n"
        "def pytest_unconfigure(config):\n    config.kept.exitstatus = 0\n"
    ),
    "failures not counted": hook(_finish("session.testsfailed = 0")),
    "results forgotten": hook(
        "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_terminal_summary(terminalreporter):\n"
        "    terminalreporter.stats.clear()\n"
    ),
    "plugin unregistered": hook(
        "def pytest_sessionstart(session):\n"
        "    manager = session.config.pluginmanager\n"
        "    manager.unregister(name='busbw.plugin')\n",
        codes=(1, 2, 3, 4, 5),
    ),
    "options changed": hook("def pytest_configure(config):\n    config.option.payloads = ''\n"),
    "collection alone": hook("def pytest_configure(config):\n    config.option.setupplan = True\n"),
    "interrupted": hook(
        "def pytest_runtest_setup(item):\n    raise KeyboardInterrupt\n", codes=(1, 2)
    ),
}
