"""The variables about the chat agent, its model, and the servers of its further tools."""

import shlex
from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode

from accounts.infra.foreign_text import load_json
from mailhub.environment.endpoints import check_base_url
from mailhub.environment.kinds import Listed
from tools.servers.config import McpServer, check_servers


class AgentEnvironment(BaseSettings):
    """Fields of `mailhub.environment.Environment`; each description is a line in `.env.example`."""

    AGENT_ENABLE: bool = Field(True, description="0 switches the chat off")
    AGENT_MODEL: str = Field(
        "", description="provider:model, such as openai:gpt-6.2-sol, azure_openai:… or anthropic:…"
    )
    AI_MODEL_NAME: str = Field(
        "", description="Model for SAP AI Core, or an OpenAI model, where AGENT_MODEL is not set"
    )
    AI_DESTINATION_NAME: str = Field(
        "", description="Set, the model comes from SAP AI Core through its SDK"
    )
    OPENAI_BASE_URL: str = Field("", description="A server that speaks OpenAI's protocol")
    OPENAI_API_KEY: str = Field("", description="For openai:…")
    OPENAI_API_VERSION: str = Field("", description="For azure_openai:…")
    AZURE_OPENAI_ENDPOINT: str = Field("", description="For azure_openai:…")
    AZURE_OPENAI_API_KEY: str = Field("", description="For azure_openai:…")
    ANTHROPIC_API_KEY: str = Field("", description="For anthropic:…")
    AGENT_DEFAULT_MODE: Literal["readOnly", "default", "safeWrite"] = Field(
        "readOnly",
        description="What the chat may do when a request says nothing: readOnly, default or safeWrite",
    )
    AGENT_RECURSION_LIMIT: int = Field(
        4, ge=1, le=50, description="Rounds of model and tools for one request"
    )
    AGENT_REQUESTS_PER_MINUTE: int = Field(
        30,
        ge=1,
        description="Requests to the chat of one token or person, over all threads; then 429",
    )
    AGENT_WRITE_ALLOW: Listed[str] = Field(
        default=[], description="Tools that the mode default may use beyond drafts, comma-separated"
    )
    AGENT_LOG_LEVEL: Literal["debug", "info", "warn", "error"] = Field(
        "info", description="debug, info, warn or error"
    )
    AGENT_LOG_STEPS: bool = Field(
        False, description="1: a line for each call of the model, with its size in tokens"
    )
    AGENT_LOG_OUTPUT: bool = Field(
        False, description="1: a line for each tool's answer, with its size"
    )
    AGENT_MCP_SERVERS: Annotated[list[McpServer], NoDecode] = Field(
        default=[],
        description="Further MCP servers for the chat, as a JSON list; docs/operate/operations.md has its members",
    )
    MCP_M365_TOOLS: Listed[Literal["m365_run_command"]] = Field(
        default=["m365_run_command"],
        description="The tools for Microsoft 365 that are offered, comma-separated",
    )
    MCP_M365_START_CMD: str = Field(
        "",
        description="Starts the MCP server of the CLI for Microsoft 365; empty: m365_run_command says it is not set up",
    )
    MCP_M365_HEALTH_INTERVAL_MS: int = Field(
        30_000, ge=100, description="How often that server is asked for a sign of life"
    )
    MCP_M365_STRICT_READONLY: bool = Field(
        True,
        description="1: commands that change something are blocked; 0: they wait for a person's approval",
    )

    @field_validator("AGENT_MODEL")
    @classmethod
    def _names_a_provider(cls, model: str) -> str:
        provider, _, name = model.partition(":")
        if model and not (provider and name):
            raise ValueError("must be provider:model, such as openai:gpt-6.2-sol")
        return model

    @field_validator("AGENT_MCP_SERVERS", mode="before")
    @classmethod
    def _is_json(cls, value: object) -> object:
        try:
            return load_json(value) if isinstance(value, str) else value
        except ValueError:
            raise ValueError("is not JSON") from None

    @field_validator("AGENT_MCP_SERVERS")
    @classmethod
    def _are_usable(cls, servers: list[McpServer]) -> list[McpServer]:
        check_servers(servers)
        for each in servers:
            if each.headers:  # the secret must not be sent in the clear
                try:
                    check_base_url(each.url)
                except ValueError as error:
                    raise ValueError(f"{each.name} has a secret, so its url {error}") from None
        return servers

    @field_validator("MCP_M365_START_CMD")
    @classmethod
    def _is_command(cls, command: str) -> str:
        try:
            shlex.split(command)
        except ValueError:
            raise ValueError("has a quote that is not closed") from None
        return command
