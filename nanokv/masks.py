"""Who may look at whom, from positions alone. True = may look. No slot index, no length, no offset.

Every mask is `mask(q_pos [b t], k_pos [b h s]) -> bool [b h t s]`, one comparison of two position tensors; h is 1
while all heads hold the same tokens. An empty slot has position -1 and nobody may look at it. Held 0 1 5 6 9:

    causal    counter_causal    sliding_window(5)    either(sinks(2), sliding_window(3))
    #....     .####             #....                #....
    ##...     ..###             ##...                ##...
    ###..     ...##             .##..                ###..
    ####.     ....#             ..##.                ####.
    #####     .....             ..###                ##..#
"""


def causal(q_pos, k_pos):
    """The past and oneself. q_pos [b t], k_pos [b h s] -> [b h t s]."""
    q, k = q_pos[:, None, :, None], k_pos[:, :, None, :]
    return (k <= q) & (k >= 0)


def counter_causal(q_pos, k_pos):
    """Strictly the future (arXiv 2607.27600, Sec. 3.2). The newest token's row is empty."""
    q, k = q_pos[:, None, :, None], k_pos[:, :, None, :]
    return k > q


def nearest_future(min_gap=0, window=None):
    """counter_causal without the `min_gap` nearest tokens and, if `window` is given, without those further than it."""

    def mask(q_pos, k_pos):
        q, k = q_pos[:, None, :, None], k_pos[:, :, None, :]
        far = k <= q + window if window is not None else k >= 0
        return (k > q + min_gap) & far

    return mask


def sliding_window(w):
    """The last `w` positions, one's own included."""

    def mask(q_pos, k_pos):
        q, k = q_pos[:, None, :, None], k_pos[:, :, None, :]
        return (k <= q) & (k > q - w) & (k >= 0)

    return mask


def within(w):
    """Nearer than `w` positions on either side: a model's own sliding window, for passes that look both ways."""

    def mask(q_pos, k_pos):
        q, k = q_pos[:, None, :, None], k_pos[:, :, None, :]
        return ((q - k).abs() < w) & (k >= 0)

    return mask


def sinks(n):
    """The first `n` positions, causally."""

    def mask(q_pos, k_pos):
        q, k = q_pos[:, None, :, None], k_pos[:, :, None, :]
        return (k < n) & (k <= q) & (k >= 0)

    return mask


def either(one, other):
    """Whoever one of the two masks lets look."""

    def mask(q_pos, k_pos):
        return one(q_pos, k_pos) | other(q_pos, k_pos)

    return mask


def both(one, other):
    """Whoever both masks let look."""

    def mask(q_pos, k_pos):
        return one(q_pos, k_pos) & other(q_pos, k_pos)

    return mask
