"""The minimal cost of a send: a job without Django, started by the same queue, that hands over by
plain smtplib.

`python -m tests.bench.floors ADDRESS` is the floor of the database queue: it waits on a NOTIFY or
on a FIFO.
"""

import os
import smtplib
import sys
from pathlib import Path
from uuid import uuid4

import psycopg
from celery import Celery  # type: ignore[import-untyped]

SENDER, RECIPIENT = "floor@lovelace.example", "mira@northwind.example"
CHANNEL = "floor"
READY = "ready"

app = Celery("floor", broker=os.environ.get("FLOOR_BROKER", "memory://"))
app.conf.update(
    task_ignore_result=True, task_default_queue="floor", worker_hijack_root_logger=False
)


def letter() -> str:
    return (
        f"From: {SENDER}\r\nTo: {RECIPIENT}\r\nSubject: Hello\r\nMessage-ID: <{uuid4().hex}@lovelace.example>\r\n"
        "Date: Mon, 02 Nov 2026 10:00:00 +0100\r\n\r\nHello Mira,\r\nuntil Thursday.\r\nAlice\r\n"
    )


def send(port: int) -> None:
    """Send one mail as any program does. The fixed host name keeps smtplib from asking the
    resolver.
    """
    with smtplib.SMTP("127.0.0.1", port, local_hostname="localhost") as smtp:
        smtp.login("user", "password")
        smtp.sendmail(SENDER, [RECIPIENT], letter())


def keep_sending(port: int, number: int) -> None:
    """Send this number of mails over one kept connection."""
    with smtplib.SMTP("127.0.0.1", port, local_hostname="localhost") as smtp:
        smtp.login("user", "password")
        for _ in range(number):
            smtp.sendmail(SENDER, [RECIPIENT], letter())


@app.task(name="floor.send")
def send_by_celery(port: int) -> None:
    send(port)


def serve(address: str) -> None:
    """Send at each notification; its content is the port."""
    if address.startswith("postgres"):
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"LISTEN {CHANNEL}")
            Path(READY).touch()
            for notify in connection.notifies():
                send(int(notify.payload))
    bell = os.open(address, os.O_RDWR)
    Path(READY).touch()
    while True:
        send(int(os.read(bell, 5)))


if __name__ == "__main__":
    if sys.argv[1] == "drain":
        keep_sending(int(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1] == "drain-fresh":
        for _ in range(int(sys.argv[3])):
            send(int(sys.argv[2]))
    else:
        serve(sys.argv[1])
