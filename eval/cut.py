"""Prompts longer than the model reads lose their middle, where instructions seldom are (THUDM/LongBench, pred.py)."""

from nanokv import UserError


def cut_middle(ids: list, limit: int) -> list:
    """The first and the last limit // 2 token ids of `ids`; all of them where they are `limit` or fewer.

    [0..9] at 4 gives 0 1 8 9. An odd limit keeps one id less than it allows, as upstream's int(limit / 2) twice does.
    UserError for a limit under 2, which would leave nothing (upstream's slice [-0:] would then leave everything).
    """
    if limit < 2:
        raise UserError(f"a limit of {limit} tokens leaves nothing of a prompt: at least 2")
    if len(ids) <= limit:
        return ids
    half = limit // 2
    return ids[:half] + ids[-half:]
