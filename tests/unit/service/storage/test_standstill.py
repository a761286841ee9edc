"""Only a worker that has surely stopped, and that is in the way, is ended by another."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from service.config import Settings
from service.storage.database import Database, database_url
from service.storage.exclusive import only_worker, sign_of_life
from service.storage.prepare import prepare_database
from service.storage.standstill import Process, Watch
from tests.processes import wait_until

LOOKS = 8  # one more than it takes
_HOLDER = """
import os, sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(600)
"""


def who(sign=None):
    """Whom a sign of life names; else this process."""
    found = Process.read(sign) if sign is not None else Process.this(0.6)
    assert found is not None
    return found


def born(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


@pytest.fixture
def settings(tmp_path):
    made = Settings(home=tmp_path, lease_seconds=0.6, worker_id="other")
    prepare_database(made)
    return made


@pytest.fixture(params=["zstci.db", "jobs.db"])
def holder(settings, request):
    """Another process, which holds the lock and says nothing."""
    command = [sys.executable, "-c", _HOLDER, str(settings.home / request.param)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


@pytest.fixture
def sign(settings, holder):
    """What a worker in that process would have left."""
    file = sign_of_life(settings.model_copy(update={"worker_id": "stopped"}))
    file.write_text(str(replace(who(), pid=holder.pid, started=born(holder.pid))))
    return file


def is_killed(settings, holder, between=lambda: None):
    watch = Watch(settings)
    for _ in range(LOOKS):
        watch.look()
        between()
    time.sleep(0.2)
    return holder.poll() == -signal.SIGKILL


def test_a_worker_that_shows_no_signs_and_holds_the_lock_is_killed(settings, holder, sign):
    assert is_killed(settings, holder)
    database = Database(database_url(settings))
    with database.write():
        pass  # the lock is free
    database.close()


def test_one_that_shows_signs_is_left_alone(settings, holder, sign):
    assert not is_killed(settings, holder, between=lambda: os.utime(sign))


def test_one_whose_own_lease_is_longer_is_left_alone_for_as_long(settings, holder, sign):
    sign.write_text(str(replace(who(sign), lease_seconds=1.2)))
    assert not is_killed(settings, holder)


@pytest.mark.parametrize("lie", [{"machine": "another"}, {"started": 1}])
def test_a_process_of_another_machine_or_another_birth_is_left_alone(settings, holder, sign, lie):
    sign.write_text(str(replace(who(sign), **lie)))
    assert not is_killed(settings, holder)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"pid": 1}'])
def test_one_that_does_not_say_who_it_is_is_left_alone(settings, holder, sign, content):
    sign.write_text(content)
    assert not is_killed(settings, holder)


def test_one_that_holds_nothing_is_left_alone(settings, holder, sign, tmp_path):
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as idle:
        sign.write_text(str(replace(who(sign), pid=idle.pid, started=born(idle.pid))))
        holder.kill()
        holder.wait()
        assert not is_killed(settings, idle)
        idle.kill()


def test_one_that_stands_still_is_left_alone_while_another_process_holds_the_lock(settings, holder, sign):
    """A backup, or somebody's shell: to kill the worker would free nothing."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as idle:
        sign.write_text(str(replace(who(sign), pid=idle.pid, started=born(idle.pid))))
        assert not is_killed(settings, idle)
        assert holder.poll() is None
        idle.kill()


def test_a_worker_says_which_process_it_is_and_another_of_its_name_does_not_rub_that_out(settings):
    database = Database(database_url(settings))
    with only_worker(settings, database):
        said = Process.read(sign_of_life(settings))
        assert said is not None
        assert (said.pid, said.lease_seconds, said.lives_here()) == (os.getpid(), 0.6, True)
        with pytest.raises(Exception, match="is running"), only_worker(settings, database):
            pass
        assert Process.read(sign_of_life(settings)) == said
    database.close()


def test_a_process_that_ended_meanwhile_is_not_killed_nor_its_number():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        number = process.pid
    wait_until(lambda: process.poll() is not None)
    assert not replace(who(), pid=number).kill()


def test_to_start_no_lock_is_needed_where_nothing_is_to_migrate(settings):
    with closing(sqlite3.connect(settings.home / "zstci.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        started = time.monotonic()
        prepare_database(settings)
        assert time.monotonic() - started < 20
