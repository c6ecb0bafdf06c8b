"""Answers of HAProxy, as 2.6.12 and 3.2.0 gave them."""

from __future__ import annotations

import pytest

from inference_operator.agent.haproxy import Workers, parse_workers
from inference_operator.agent.stat import Admin, parse

STATES = """1
# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight \
srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state \
srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl \
srv_check_port srv_check_addr srv_agent_addr srv_agent_port
3 relay 1 self - 2 0 1 1 9 1 0 1 0 0 0 0 - 0 - 0 0 - - 0
4 a.b.v1 1 e1 127.0.0.1 1 0 100 100 0 15 3 3 6 0 0 0 - 18001 - 0 0 - - 0
4 a.b.v1 2 e2 127.0.0.2 0 0 100 100 0 8 2 0 6 0 0 0 - 18001 - 0 0 - - 0
5 a.b.v2 1 e3 127.0.0.3 0 5 100 100 1 1 0 0 14 0 0 0 - 18001 - 0 0 - - 0
5 a.b.v2 2 e4 2001:db8::1 1 12 100 100 0 1 0 2 6 0 0 0 - 18001 - 0 0 - - 0
5 a.b.v2 3 gone 127.0.0.9 1 0 100 100 0 1 0 2 6 0 0 0 - 18001 - 0 0 - - 0

"""
HEADER = (
    "# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,dreq,dresp,ereq,econ,eresp,wretr,wredis,status,"
    "weight,act,bck,chkfail,chkdown,lastchg,downtime,qlimit,pid,iid,sid,throttle,lbtot,tracked,type,rate,"
    "rate_lim,rate_max,check_status,check_code,"
)
ROWS = """
clients,FRONTEND,,,1,1,1739,2,169,257,0,0,0,,,,,OPEN,,,,,,,,,1,2,0,,,,0,0,0,0,,,
relay,self,0,0,1,1,,2,0,0,,0,,0,0,0,0,no check,1,1,0,,,9,,,1,3,1,,2,,2,0,,1,,,
a.b.v1,e1,1,1,2,1,8,1,169,257,,0,,0,0,0,0,UP,100,1,0,0,0,4,0,,1,4,1,,1,,2,0,,1,L7OK,200,
a.b.v1,e2,0,0,1,1,7,1,0,0,,0,,0,0,0,0,DOWN,63,1,0,0,0,3,0,,1,4,2,62,1,,2,1,,1,* L4TOUT,,
a.b.v1,BACKEND,5,0,3,1,1,2,169,257,0,0,,0,0,0,0,UP,163,2,0,,0,4,0,,1,4,0,,2,,1,1,,1,,,
a.b.v2,e3,0,0,0,0,8,0,0,0,,0,,0,0,0,0,MAINT,63,1,0,0,0,3,0,,1,5,1,,0,,2,0,,0,,,
a.b.v2,e4,0,0,0,0,8,0,0,0,,0,,0,0,0,0,DRAIN,63,1,0,0,0,3,0,,1,5,2,,0,,2,0,,0,HANA,,
a.b.v2,BACKEND,0,0,0,0,1,0,0,0,0,0,,0,0,0,0,DOWN,0,0,0,,0,4,4,,1,5,0,,0,,1,0,,0,,,

"""


def test_servers_are_joined_from_both_answers():
    snapshot = parse(STATES + "\n" + HEADER + ROWS)
    assert snapshot.queued["a.b.v1"] == 5
    found = {s.name: s for s in snapshot.servers}
    # "gone" vanished in between, and the way of HAProxy to itself is nobody's engine.
    assert sorted(found) == ["e1", "e2", "e3", "e4"]
    e1 = found["e1"]
    assert (e1.backend, e1.address, e1.port) == ("a.b.v1", "127.0.0.1", 18001)
    assert (e1.admin, e1.dead, e1.current, e1.queued, e1.maxconn) == (Admin.READY, False, 2, 1, 8)
    assert (found["e2"].dead, found["e2"].passive) == (True, False)
    # In MAINT nothing is checked: such a server isn't dead, and its streams may be fine.
    assert (found["e3"].admin, found["e3"].dead) == (Admin.MAINT, False)
    assert (found["e4"].admin, found["e4"].address) == (Admin.DRAIN, "2001:db8::1")


@pytest.mark.parametrize("text", ["", "\n", "Can't find the target PID matching the prefix '@!7'\n"])
def test_a_worker_that_has_gone_has_no_servers(text: str):
    assert parse(text).servers == ()


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (
            "#<PID> <type> <reloads> <uptime> <version>\n"
            "5231            master          3 [failed: 0]   0d00h00m07s     2.6.12-1+deb12u4\n"
            "# workers\n5335            worker          0               0d00h00m01s     2.6.12-1+deb12u4\n"
            "# old workers\n5234            worker          3               0d00h00m07s     2.6.12\n"
            "5301            worker          1               0d00h00m07s     2.6.12\n# programs\n",
            Workers(5335, (5301, 5234), 0),
        ),
        (
            # 3.2 after a refused reload: the worker that serves is called old.
            "#<PID> <type> <reloads> <uptime> <version>\n7239 master 2 [failed: 1] 0d00h00m07s 3.2.0\n"
            "# workers\n# old workers\n7359 worker 1 0d00h00m03s 3.2.0\n7242 worker 2 0d 3.2.0\n",
            Workers(7359, (7242,), 1),
        ),
        (
            # Soft stop with a stream left in an old worker only.
            "5231 master 3 [failed: 0] 0d 2.6.12\n# workers\n# old workers\n5234 worker 3 0d 2.6.12\n",
            Workers(None, (5234,), 0),
        ),
        ("", Workers(None, (), 0)),
    ],
)
def test_the_list_of_workers(text: str, want: Workers):
    assert parse_workers(text) == want
