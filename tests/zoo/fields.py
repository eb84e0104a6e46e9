"""What the fields of a configuration are called, in the words of many authors, and how large they are in the zoo."""

from __future__ import annotations

from collections.abc import Callable

from .sizes import Sizes

FIELDS: list[tuple[Callable[[Sizes], int], str]] = [
    (lambda z: z.V, """vocab_size src_vocab_size tgt_vocab_size decoder_vocab_size unpadded_vocab_size entity_vocab_size
        t2u_vocab_size vocab_size_per_layer_input encoder_hash_byte_group_vocab audio_vocab_size
        codebook_vocab_size"""),
    (lambda z: z.L, """num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_encoder_layers
        num_decoder_layers encoder_num_hidden_layers decoder_num_hidden_layers speech_encoder_layers t2u_encoder_layers
        t2u_decoder_layers num_global_layers conf_num_hidden_layers num_blocks depth encoder_depth
        num_self_attends_per_block n_input_layers n_output_layers n_recurrent_layers"""),
    (lambda z: z.H, """num_attention_heads num_heads n_head n_heads encoder_attention_heads decoder_attention_heads
        attention_heads num_encoder_attention_heads num_decoder_attention_heads encoder_num_attention_heads
        decoder_num_attention_heads speech_encoder_attention_heads t2u_encoder_attention_heads
        t2u_decoder_attention_heads swa_num_attention_heads cross_num_attention_heads conf_num_attention_heads
        num_self_attention_heads num_cross_attention_heads num_query_groups"""),
    (lambda z: z.G, """num_key_value_heads kv_n_heads num_kv_heads swa_num_key_value_heads cross_num_key_value_heads
        encoder_num_key_value_heads decoder_num_key_value_heads num_global_key_value_heads"""),
    (lambda z: z.D, """head_dim d_kv d_head dim_head attention_head_size swa_head_dim cross_head_dim
        kv_channels global_head_dim swa_v_head_dim v_head_dim"""),
    (lambda z: z.C, """hidden_size d_model n_embd dim emb_dim embed_dim hidden_dim cross_hidden_size lru_width
        word_embed_proj_dim out_hidden_size encoder_hidden_size backbone_hidden_size decoder_hidden_size output_dim
        cross_attention_hidden_size hidden_size_global output_hidden_size embedding_dim
        adapter_out_dim adapter_in_dim
        adapter_input_size audio_hidden_size upsample_groups"""),
    (lambda z: z.F, """intermediate_size d_ff ffn_dim encoder_ffn_dim decoder_ffn_dim n_inner d_inner dff dim_ff
        ffn_hidden_size feed_forward_size speech_encoder_intermediate_size t2u_encoder_ffn_dim t2u_decoder_ffn_dim
        mlp_dim intermediate_size_mlp dense_intermediate_size"""),
    (lambda z: z.J, """moe_intermediate_size shared_expert_intermediate_size moe_shared_expert_intermediate_size
        shared_intermediate_size expert_ffn_hidden_size shared_experts_intermediate_size"""),
    (lambda z: 128, """max_position_embeddings n_positions n_ctx max_source_positions max_target_positions max_seq_len
        context_length max_encoder_position_embeddings max_decoder_position_embeddings model_max_length
        t2u_max_position_embeddings original_max_position_embeddings max_2d_position_embeddings max_sequence_length"""),
    (lambda z: z.E, """num_experts n_routed_experts num_local_experts moe_num_experts"""),
    (lambda z: z.K, """num_experts_per_tok moe_top_k moe_topk num_experts_per_token moe_k top_k_experts"""),
    (lambda z: 1, """n_shared_experts num_shared_experts moe_num_shared_experts topk_group n_group num_expert_group
        first_k_dense_replace num_dense_layers moe_layer_start_index zero_expert_num"""),
    (lambda z: 0, "num_nextn_predict_layers num_kv_shared_layers"),
    (lambda z: z.Q, "q_lora_rank"),
    (lambda z: z.Z, "kv_lora_rank"),
    (lambda z: z.U, "qk_nope_head_dim"),
    (lambda z: z.R, "qk_rope_head_dim rotary_dim"),
    (lambda z: z.M, "embedding_size"),
    (lambda z: z.h, "mamba_n_heads mamba_num_heads n_mamba_heads linear_num_value_heads linear_num_heads"),
    (lambda z: z.g, "n_groups mamba_n_groups mamba_ngroups linear_num_key_heads"),
    (lambda z: z.d, "mamba_d_head mamba_headdim mamba_head_dim"),
    (lambda z: z.d + 6, "linear_value_head_dim linear_head_dim"),  # with h, no multiple of the width
    (lambda z: z.k, "linear_key_head_dim"),
    (lambda z: z.h * z.d, "mamba_d_ssm"),
    (lambda z: z.w, "conv_kernel d_conv mamba_d_conv linear_conv_kernel_dim short_conv_kernel_size conv_L_cache"),
    (lambda z: z.N, "state_size mamba_d_state ssm_state_size"),
    (lambda z: z.A, "time_step_rank mamba_dt_rank dt_rank"),
    (lambda z: 4, """sliding_window attention_window sliding_window_size attention_window_size attention_chunk_size
        local_attention keep_window_size local_attn_chunk_length lsh_attn_chunk_length block_size"""),
    (lambda z: z.c, "chunk_size mamba_chunk_size"),
    (lambda z: z.i, "index_n_heads indexer_n_heads"),
    (lambda z: z.j, "index_head_dim indexer_head_dim"),
    (lambda z: 64, "image_size"),
    (lambda z: z.n, "hc_mult hc_count altup_num_inputs"),
    (lambda z: z.e, "hidden_size_per_layer_input"),
    (lambda z: 25, "laurel_rank"),
]  # fmt: skip
"""How large -> the names of fields; the first that has the name counts."""


def size_of(name: str, sizes: Sizes) -> int | None:
    """How large the field of this name is; None if it stays as it is."""
    for size, names in FIELDS:
        if name in names.split():
            return size(sizes)
    return None
