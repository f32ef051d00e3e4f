"""The recurrent layers of a hybrid model, as its keys tell of them: which layers, and of what shape.

Decides which blocks are recurrent and that the sizes fit each other. Knows nothing of tensors.
"""

from strata.model.architecture_rules import ArchitectureRules
from strata.model.gguf.metadata import Metadata
from strata.model.spec import RecurrentSpec

DEFAULT_INTERVAL = 4
"""Every fourth layer attends where the file does not say otherwise."""
MAX_CONV_TAPS = 64
MAX_LINEAR_HEADS = 4_096
MAX_HEAD_WIDTH = 4_096


def recurrent_blocks(
    metadata: Metadata, prefix: str, rules: ArchitectureRules, *, num_blocks: int, num_layers: int
) -> tuple[bool, ...]:
    """A flag for each of the `num_blocks` blocks. Blocks from `num_layers` on are NextN blocks, which always attend."""
    if rules.head_map is None:
        return (False,) * num_blocks
    key = f"{prefix}attention.recurrent_layers"
    if key in metadata:
        flags = metadata.flags(key)
        if len(flags) != num_blocks:
            raise metadata.error(key, f"has {len(flags):,} elements, block_count={num_blocks:,} asks for as many")
        if any(flags[num_layers:]):
            raise metadata.error(key, f"makes a NextN block recurrent: block {flags.index(True, num_layers)}")
        return tuple(flags)
    interval = metadata.integer(f"{prefix}full_attention_interval", DEFAULT_INTERVAL, minimum=1)
    return tuple(block < num_layers and (block + 1) % interval != 0 for block in range(num_blocks))


def read_recurrence(metadata: Metadata, prefix: str, rules: ArchitectureRules) -> RecurrentSpec | None:
    """None where all layers of the architecture attend. Raises ModelError for sizes that contradict each other."""
    if rules.head_map is None:
        return None
    spec = RecurrentSpec(
        num_key_heads=metadata.integer(f"{prefix}ssm.group_count", minimum=1, maximum=MAX_LINEAR_HEADS),
        num_value_heads=metadata.integer(f"{prefix}ssm.time_step_rank", minimum=1, maximum=MAX_LINEAR_HEADS),
        head_width=metadata.integer(f"{prefix}ssm.state_size", minimum=1, maximum=MAX_HEAD_WIDTH),
        num_conv_taps=metadata.integer(f"{prefix}ssm.conv_kernel", minimum=2, maximum=MAX_CONV_TAPS),
        head_map=rules.head_map,
    )
    if spec.num_value_heads % spec.num_key_heads:
        raise metadata.error(
            f"{prefix}ssm.time_step_rank",
            f"= {spec.num_value_heads:,} value heads are no multiple of group_count={spec.num_key_heads:,} key heads",
        )
    inner = metadata.integer(f"{prefix}ssm.inner_size", spec.value_width)
    if inner != spec.value_width:
        raise metadata.error(
            f"{prefix}ssm.inner_size",
            f"= {inner:,}, but {spec.num_value_heads:,} value heads of state_size={spec.head_width:,} make "
            f"{spec.value_width:,}",
        )
    return spec
