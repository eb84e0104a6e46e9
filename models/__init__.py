"""Reference models: plain PyTorch, to be read top to bottom. They know nothing of the tool that records them.

    gpt.py           decoder-only: GPT
    encoder.py       encoder-only: Encoder
    transformer.py   encoder-decoder, as in the paper: Transformer
    variants.py      the same with other choices, by name: llama, postln, mqa, …

    block.py         attention and feed-forward, each added to the residual stream: Block
    attention.py     attend, and the module around it: MultiHeadAttention
    feed_forward.py  C → F → C at every position: FeedForward, SwiGLU
    positions.py     the sinusoidal table of the paper, and rotary positions: SinusoidalEncoding, RotaryEncoding
    masks.py         which keys a query must not see: causal, padding
    config.py        the sizes and choices of a model: Config

Start with gpt.py, then block.py and attention.py. Sizes go by one letter each. A file opens with those that it uses,
and a comment such as `# (B, H, T, D)` stands on the lines where a shape changes:

    B  batch                          C  model width               V  vocabulary
    T  length, of the target          H  heads                     L  layers
       where there is a source        G  key and value heads
    S  length of the source           D  head width, C / H
                                      F  feed-forward width

The functions gpt(), encoder() and transformer() each give a small model and an input for it.

"The paper" is Vaswani et al., *Attention Is All You Need*, 2017 (arXiv:1706.03762). Its dropout is left out everywhere:
it changes no shape.
"""
