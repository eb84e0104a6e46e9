"""A zoo of other people's models: shapetrace checked against what they themselves say their tensors are.

Every model type that transformers knows is built small, from its configuration, with random weights, run, and traced.
`python -m tests.zoo` prints the table; its checks are in `checks`.
"""
