import cProfile, pstats, time, statistics, io
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from approvals import services
from approvals.models import PendingAction
from approvals.queues.workers import carry_out
from tests.approvals.queues.conftest import site, broker, redis, redis_server, sandbox, sandbox_process
from tests.bench.bench_sending import Arrivals, approve
from approvals.execution import execute
from approvals import maintenance
pytestmark = [pytest.mark.django_db(transaction=True)]

@pytest.mark.parametrize("kind", ["database"])
def test_prof(site, alice, capsys):
    actions = [PendingAction.objects.get(pk=site.api.propose(subject=f"Mail {n}")) for n in range(40)]
    arr = Arrivals(site.smtp)
    ta, te, tx, ts = [], [], [], []
    pa, pe = cProfile.Profile(), cProfile.Profile()
    for i, a in enumerate(actions):
        prof = i >= 20
        t0=time.perf_counter()
        if prof: pa.enable()
        approve(a, alice)
        if prof: pa.disable()
        t1=time.perf_counter()
        if prof: pe.enable()
        execute(a.pk, worker="w")
        if prof: pe.disable()
        t2=time.perf_counter()
        maintenance.settle_one(a.pk)
        t3=time.perf_counter()
        if not prof:
            ta.append((t1-t0)*1e3); te.append((arr._at-t1)*1e3); tx.append((t2-t1)*1e3); ts.append((t3-t2)*1e3)
    m=statistics.median
    with capsys.disabled():
        print("approve", m(ta), min(ta), "to accept", m(te), min(te), "execute", m(tx), min(tx), "settle", m(ts), min(ts))
        from django.conf import settings
        a = PendingAction.objects.get(pk=site.api.propose(subject="x"))
        with CaptureQueriesContext(connection) as q: approve(a, alice)
        print("APPROVE", len(q)); [print("  ", x["time"], x["sql"][:110]) for x in q]
        with CaptureQueriesContext(connection) as q: execute(a.pk, worker="w")
        print("EXECUTE", len(q)); [print("  ", x["time"], x["sql"][:110]) for x in q]
        with CaptureQueriesContext(connection) as q: maintenance.settle_one(a.pk)
        print("SETTLE", len(q)); [print("  ", x["time"], x["sql"][:110]) for x in q]
        for p in (pa, pe):
            s=io.StringIO(); pstats.Stats(p, stream=s).sort_stats("cumtime").print_stats(45); print(s.getvalue())
