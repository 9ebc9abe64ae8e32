"""The alarms and the dashboard name metrics that exist, and each alarm says what to do."""

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml
from django.conf import settings as django_settings
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from approvals.worker import heartbeats
from mailhub.operations.health import PARTS

DEPLOY = django_settings.BASE_DIR / "deploy"
RULES = DEPLOY / "prometheus" / "mailhub.rules.yml"
NAME = re.compile(r"\bmailhub_\w+")
# prometheus_client shows a histogram's samples only once something was observed in this process.
OF_A_LABEL = ("mailhub_gmail_requests_total", "mailhub_gmail_search_seconds_bucket")


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return list(group["rules"])


def expressions() -> list[str]:
    dashboard = json.loads((DEPLOY / "grafana" / "mailhub.json").read_text())
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return [*shown, *(rule["expr"] for rule in rules())]


@pytest.mark.django_db(transaction=True)
def test_every_metric_of_alarms_and_dashboard_exists(settings: Any) -> None:
    settings.MAILHUB_METRICS_TOKEN = "token"
    heartbeats.beat("somewhere:1")
    answer = Client().get("/metrics", headers={"Authorization": "Bearer token"})
    families = list(text_string_to_metric_families(answer.content.decode()))
    there = {sample.name for family in families for sample in family.samples}
    labels = {
        (sample.name, value)
        for family in families
        for sample in family.samples
        for value in sample.labels.values()
    }
    declared = {family.name for family in families}
    for expression in expressions():
        for name in NAME.findall(expression):
            of_family = re.sub(r"_(total|bucket)$", "", name)
            assert name in there or (name in OF_A_LABEL and of_family in declared), name
        for name, value in re.findall(r'(mailhub_\w+)\{\w+="(\w+)"\}', expression):
            assert (name, value) in labels or name in OF_A_LABEL, (name, value)


@pytest.mark.static
def test_each_part_has_an_alarm_and_each_alarm_a_remedy() -> None:
    said = (django_settings.BASE_DIR / "docs" / "operate" / "alarms.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", said, re.MULTILINE | re.DOTALL))
    alarms = {rule["alert"]: rule for rule in rules()}
    assert sections.keys() == alarms.keys()
    for name, section in sections.items():
        assert "**What to do:**" in section, name
        assert alarms[name]["annotations"]["runbook"].endswith(f"#{name.lower()}")
    watched = " ".join(rule["expr"] for rule in rules())
    for part in PARTS:
        told = {"worker": "mailhub_workers", "following_up": "mailhub_overdue_work_age_seconds"}
        assert told.get(part, f'part="{part}"') in watched, part


@pytest.mark.static
def test_critical_alarms_come_within_a_minute() -> None:
    (scrape,) = yaml.safe_load((RULES.parent / "scrape.yml").read_text())["scrape_configs"]
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    rounds = [scrape["scrape_interval"], group["interval"]]
    unseen = {"MailhubNoWorker": heartbeats.FRESH.total_seconds()}
    for rule in rules():
        if rule["labels"]["severity"] == "critical":
            name, waits = rule["alert"], [*rounds, rule["for"]]
            assert unseen.get(name, 0) + sum(map(seconds, waits)) <= 60, name


def seconds(duration: str) -> int:
    return int(duration[:-1]) * {"s": 1, "m": 60}[duration[-1]]


@pytest.mark.static
def test_gmail_is_watched_by_the_agreed_thresholds() -> None:
    alarms = {rule["alert"]: rule["expr"] for rule in rules()}
    assert re.search(r'\{status="429"\}\[5m\]\)\) > 3$', alarms["MailhubGmailTooOften"])
    assert re.fullmatch(r"histogram_quantile\(0\.95, .*\) > 5", alarms["MailhubGmailSearchSlow"])


@pytest.mark.static
@pytest.mark.skipif(shutil.which("promtool") is None, reason="make test-all installs prometheus")
def test_prometheus_loads_the_rules() -> None:
    done = subprocess.run(
        ["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(rules())} rules found" in done.stdout
