"""Which tensors a recurrent block has. Files spell two of its projections in two ways:

    attn_qkv {E, C} and attn_gate {E, Hv S}     or, for grouped heads,
    ssm_in {E, 2 Hk S + 2 Hv S}: for each key head its query, its key, then values and gates of its r value heads

    ssm_beta {E, Hv} and ssm_alpha {E, Hv}      or, for grouped heads,
    ssm_ba {E, 2 Hv}: for each key head beta, then alpha, of its r value heads

Decides which of them a file has chosen; what they mean is computed by `model.programs.recurrent`.
"""

from strata.model.expected_tensors import Expected
from strata.model.file_tensors import FileTensors
from strata.model.hyperparameters import Hyperparameters
from strata.model.spec import HeadMap


def recurrent_tensors(tensors: FileTensors, hyper: Hyperparameters, block: int) -> dict[str, Expected]:
    """Under their names in the block. A file with both spellings is left with tensors that nobody takes."""
    shape, hidden = hyper.recurrent, hyper.hidden_size
    assert shape is not None, block
    heads, width = shape.num_value_heads, shape.value_width
    is_grouped = shape.head_map is HeadMap.GROUPED
    expected = {
        "attn_norm.weight": Expected((hidden,)),
        "ssm_conv1d.weight": Expected((shape.num_conv_taps, shape.num_channels)),
        "ssm_dt.bias": Expected((heads,)),
        "ssm_a": Expected((heads,)),
        "ssm_norm.weight": Expected((shape.head_width,)),
        "ssm_out.weight": Expected((width, hidden)),
    }
    if is_grouped and f"blk.{block}.ssm_in.weight" in tensors:
        expected["ssm_in.weight"] = Expected((hidden, shape.num_channels + width))
    else:
        expected["attn_qkv.weight"] = Expected((hidden, shape.num_channels))
        expected["attn_gate.weight"] = Expected((hidden, width))
    if is_grouped and f"blk.{block}.ssm_ba.weight" in tensors:
        expected["ssm_ba.weight"] = Expected((hidden, 2 * heads))
    else:
        expected["ssm_beta.weight"] = Expected((hidden, heads))
        expected["ssm_alpha.weight"] = Expected((hidden, heads))
    return expected
