"""nanokv: a Llama / Qwen / Mistral forward pass written out by hand around one KV buffer.

The axis letters, one alphabet for every docstring, einops pattern and einsum:

    b  rows of a batch (always 1: one prompt a run)      h  kv heads
    t  new tokens of this call                           g  query heads per kv head (h before g, always)
    s  slots of the buffer                               d  head width
    n  tokens seen                                       e  model width
    v  vocabulary                                        f  mlp width

Two clocks, two names: `n_seen` counts the tokens that went in and is the next token's position;
`n_kept` counts the rows still held. A slot's index means nothing, its `pos` means everything.
"""


class UserError(Exception):
    """Something the caller can mend. The message is one line that names the file, option or tensor."""
