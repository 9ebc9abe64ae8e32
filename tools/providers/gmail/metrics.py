"""Metrics of the Gmail API in this process.

Labels are names of calls and results, never an address.
"""

from prometheus_client import CollectorRegistry, Counter, Histogram

REGISTRY = CollectorRegistry()
REQUESTS = Counter(
    "mailhub_gmail_requests",
    "Requests by call and HTTP status, those inside a batch beside the batch; 429 is every way of saying too often",
    ["method", "status"],
    registry=REGISTRY,
)
SEARCHES = Counter(
    "mailhub_gmail_searches", "Searches by what came of them", ["outcome"], registry=REGISTRY
)
SECONDS = Histogram(
    "mailhub_gmail_search_seconds",
    "How long a search took; p50, p95 and p99 by histogram_quantile",
    buckets=(0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 20),
    registry=REGISTRY,
)
PAGES = Histogram(
    "mailhub_gmail_search_pages", "Pages that a search took", buckets=(1, 3, 10), registry=REGISTRY
)
ENRICHED = Counter(
    "mailhub_gmail_enriched", "Rows of a search that were filled in", ["outcome"], registry=REGISTRY
)
