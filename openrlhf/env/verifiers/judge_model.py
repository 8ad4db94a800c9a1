"""A language model that says whether an answer is right, behind an OpenAI-style server."""

from openrlhf.config.env import EnvConfig
from openrlhf.env.proxy import server_address
from openrlhf.env.verifiers.once import FailureCount
from openrlhf.env.verifiers.post import JsonPost, ServiceDown

MODEL = "default"
MAX_TOKENS = 32
INSTRUCTION = """\
You compare a student's final answer to a question with the reference answer. They agree if they have the same meaning \
or value, however they are written. Do not solve the question yourself and do not correct the reference answer.

Question:
{question}

Student's final answer:
{answer}

Reference answer:
{gold}

Reply with one word: Correct if they agree, Incorrect if they do not, NONE if you cannot tell."""

_VERDICTS = {"correct": 1.0, "incorrect": 0.0}


class JudgeModel:
    """Asked at the address of `env.proxy_file` or `env.server`, at `env.verifier.judge_port`."""

    def __init__(self, env: EnvConfig, pause_s: float = 1.0) -> None:
        self._env = env
        self._post = JsonPost(env.verifier.judge_timeout, env.verifier.max_retries, pause_s)
        self._failures = FailureCount()

    async def verify(self, question: str, answer: str, gold: str) -> float | None:
        """1 or 0; None where the model cannot tell, says something else, or does not answer."""
        content = INSTRUCTION.format(question=question, answer=answer, gold=gold)
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": content}],
            "temperature": 0,
            "max_tokens": MAX_TOKENS,
        }
        try:
            said = await self._post.ask(self._url, body)
        except ServiceDown as error:
            self._failures.add("the judging model", str(error))
            return None
        try:
            text = str(said["choices"][0]["message"]["content"])
        except (KeyError, IndexError, TypeError):
            self._failures.add("the judging model", "its answer holds no message")
            return None
        return read_verdict(text)

    async def close(self) -> None:
        await self._post.close()

    def _url(self) -> str:
        return f"{server_address(self._env)}:{self._env.verifier.judge_port}/v1/chat/completions"


def read_verdict(text: str) -> float | None:
    """1 for `Correct`, 0 for `Incorrect`, brackets and a full stop aside; None for anything else."""
    return _VERDICTS.get(text.strip().strip("[](){}*\"'.! ").casefold())
