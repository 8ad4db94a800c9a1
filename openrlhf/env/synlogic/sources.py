"""Which puzzles can be checked: names of SynLogic's tasks and of reasoning-gym's own generators."""

from collections.abc import Mapping
from typing import Any

from openrlhf.env.errors import EnvError
from openrlhf.env.label import gold_of

# SynLogic's name -> reasoning-gym's, where both mean the same puzzle.
SYNLOGIC = {
    "cryptarithm": "cryptarithm",
    "futoshiki": "futoshiki",
    "game_of_24": "puzzle24",
    "kukurasu": "kakurasu",
    "sudoku": "sudoku",
    "survo": "survo",
    "word_sorting": "word_sorting",
    "zebra_puzzle": "zebra_puzzles",
}
# reasoning-gym 0.1.25's generators whose stored answer its own check accepts after a way through JSON.
_GENERATORS = """
    ab acre advanced_geometry aiw arc_1d base_conversion basic_arithmetic bf binary_alternation binary_matrix
    bitwise_arithmetic caesar_cipher calendar_arithmetic chain_sum circuit_logic codeio coin_flip color_cube_rotation
    complex_arithmetic count_bits count_primes countdown course_schedule cryptarithm decimal_arithmetic
    decimal_chain_sum dice emoji_mystery family_relationships figlet_font fraction_simplification futoshiki game_of_life
    game_of_life_halting gcd group_anagrams gsm_symbolic intermediate_integration isomorphic_strings jugs kakurasu
    knight_swap knights_knaves largest_island lcm leg_counting letter_counting letter_jumble list_functions
    mahjong_puzzle manipulate_matrix maze mini_sudoku modulo_grid n_queens needle_haystack number_filtering
    number_format number_sequence number_sorting palindrome_generation palindrome_partitioning path_star
    polynomial_equations polynomial_multiplication pool_matrix power_function prime_factorization products puzzle24
    quantum_lock ransom_note rectangle_count rotate_matrix rotten_oranges self_reference sentence_reordering
    shortest_path simple_equations simple_geometry simple_integration sokoban spell_backward spiral_matrix
    string_insertion string_manipulation string_splitting string_synthesis sudoku survo syllogism time_intervals
    tower_of_hanoi tsumego word_ladder word_sequence_reversal word_sorting zebra_puzzles
"""
REASONING_GYM = frozenset(_GENERATORS.split())


def generator_of(label: Mapping[str, Any]) -> str:
    """reasoning-gym's name of the puzzle in a label's `data_source`; what stands before a slash does not count.

    EnvError, listing the known ones, where reasoning-gym does not check that puzzle.
    """
    source = str(label.get("data_source", ""))
    name = source.rpartition("/")[2]
    generator = SYNLOGIC.get(name, name)
    if generator not in REASONING_GYM:
        raise EnvError(
            f"task synlogic: nothing checks the puzzle data_source={source!r}; of SynLogic's puzzles those known are "
            f"{', '.join(sorted(SYNLOGIC))}, of reasoning-gym's those in docs/tasks.md"
        )
    return generator


def entry_of(label: Mapping[str, Any], question: str) -> dict[str, Any]:
    """The puzzle as reasoning-gym's check reads it."""
    metadata = dict(label.get("metadata") or {})
    metadata.setdefault("source_dataset", generator_of(label))
    return {"question": str(label.get("question", question)), "answer": gold_of(label), "metadata": metadata}


def check_label(label: Mapping[str, Any]) -> None:
    """EnvError for a label that no answer could be checked with."""
    generator_of(label)
    if not isinstance(label.get("metadata"), Mapping):
        raise EnvError("task synlogic: the label holds no object 'metadata', as reasoning-gym makes it")
    if not gold_of(label):
        raise EnvError("task synlogic: the label holds no 'gold_ans' (or 'answer')")
