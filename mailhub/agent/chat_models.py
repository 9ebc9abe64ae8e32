"""The chat model that the environment names.

Its libraries are heavy, so this module is imported only at the first use.
"""

from importlib import import_module
from typing import Any

from django.conf import settings
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

WAIT_SECONDS = 240  # a model may think for minutes before its first word
ANY_KEY = "none"  # a self-hosted server may need no key, but the library requires one
# The constructor arguments of each provider's class, with the settings that hold their values.
OPTIONS = {
    "openai": {"base_url": "OPENAI_BASE_URL", "api_key": "OPENAI_API_KEY"},
    "azure_openai": {
        "azure_endpoint": "AZURE_OPENAI_ENDPOINT",
        "api_key": "AZURE_OPENAI_API_KEY",
        "api_version": "OPENAI_API_VERSION",
    },
    "anthropic": {"api_key": "ANTHROPIC_API_KEY"},
}
SAP_DEFAULT = "gpt-4.1"


class NoModel(Exception):
    """No model that can be used; the text says what to do."""


def chat_model() -> BaseChatModel:
    """Return the model of `AGENT_MODEL`; without it that of SAP AI Core if `AI_DESTINATION_NAME` is
    set; without that the OpenAI-compatible one of `AI_MODEL_NAME`. Raises NoModel.
    """
    if settings.AGENT_MODEL:
        provider, _, name = settings.AGENT_MODEL.partition(":")
        return _make_model(provider, name)
    if settings.AI_DESTINATION_NAME:
        return _make_sap_model(settings.AI_MODEL_NAME or SAP_DEFAULT)
    if settings.AI_MODEL_NAME:
        return _make_model("openai", settings.AI_MODEL_NAME)
    raise NoModel(
        "No model is set. Set AGENT_MODEL, for example AGENT_MODEL=openai:gpt-6.2-sol with OPENAI_API_KEY "
        "(and OPENAI_BASE_URL for a server of your own), and start mailhub again."
    )


def _make_model(provider: str, name: str) -> BaseChatModel:
    options = {
        key: getattr(settings, setting) for key, setting in OPTIONS.get(provider, {}).items()
    }
    given: dict[str, Any] = {key: value for key, value in options.items() if value}
    if provider == "openai" and settings.OPENAI_BASE_URL:
        given.setdefault("api_key", ANY_KEY)
    try:
        made: BaseChatModel = init_chat_model(
            name, model_provider=provider, timeout=WAIT_SECONDS, max_retries=1, **given
        )
    except (ImportError, ValueError) as error:
        raise NoModel(
            f"The model {provider}:{name} cannot be used: {str(error).splitlines()[0][:200]}"
        ) from None
    except Exception as error:  # each provider's class raises its own error for a missing key
        raise NoModel(
            f"The model {provider}:{name} cannot be used ({type(error).__name__}): is its key set?"
        ) from None
    return made


def _make_sap_model(name: str) -> BaseChatModel:
    """Return a model of SAP AI Core through its SDK, which finds its own credentials."""
    try:
        made = import_module("gen_ai_hub.proxy.langchain").init_llm(name)
    except ImportError:
        raise NoModel(
            "AI_DESTINATION_NAME is set, and SAP's SDK is not installed: pip install 'sap-ai-sdk-gen[langchain]'."
        ) from None
    if not isinstance(made, BaseChatModel):
        raise NoModel(f"SAP AI Core has no chat model {name}.")
    return made
