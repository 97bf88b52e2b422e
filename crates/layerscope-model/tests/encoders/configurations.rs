//! Configurations as they were published, and what today's reference library writes.

use serde_json::{Value, json};

use super::with;

/// What today's library writes into every configuration, and a family's own keys.
pub fn todays(own: Value) -> Value {
    let common = json!({
        "transformers_version": "5.22.2", "architectures": null, "output_hidden_states": false, "return_dict": true, "dtype": null,
        "chunk_size_feed_forward": 0, "is_encoder_decoder": false, "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
        "label2id": {"LABEL_0": 0, "LABEL_1": 1}, "problem_type": null, "tie_word_embeddings": true, "_name_or_path": "",
        "output_attentions": false, "initializer_range": 0.02
    });
    with(common, own)
}

/// A 12 x 768 encoder under BERT's keys, as today's library writes it.
pub fn todays_base(own: Value) -> Value {
    let base = json!({
        "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "max_position_embeddings": 512, "layer_norm_eps": 1e-12
    });
    todays(with(base, own))
}

pub fn bert_base_uncased() -> Value {
    json!({
        "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": false, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072, "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512, "model_type": "bert", "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0,
        "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0", "type_vocab_size": 2, "use_cache": true,
        "vocab_size": 30522
    })
}

pub fn roberta_base() -> Value {
    json!({
        "architectures": ["RobertaForMaskedLM"], "attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "eos_token_id": 2,
        "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
        "layer_norm_eps": 1e-5, "max_position_embeddings": 514, "model_type": "roberta", "num_attention_heads": 12,
        "num_hidden_layers": 12, "pad_token_id": 1, "type_vocab_size": 1, "vocab_size": 50265
    })
}

pub fn electra_small_discriminator() -> Value {
    json!({
        "architectures": ["ElectraForPreTraining"], "attention_probs_dropout_prob": 0.1, "embedding_size": 128, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "hidden_size": 256, "initializer_range": 0.02, "intermediate_size": 1024, "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512, "model_type": "electra", "num_attention_heads": 4, "num_hidden_layers": 12, "pad_token_id": 0,
        "position_embedding_type": "absolute", "summary_activation": "gelu", "summary_last_dropout": 0.1, "summary_type": "first",
        "summary_use_proj": true, "transformers_version": "4.7.0.dev0", "type_vocab_size": 2, "vocab_size": 30522
    })
}

pub fn distilbert_base_uncased() -> Value {
    json!({
        "activation": "gelu", "architectures": ["DistilBertForMaskedLM"], "attention_dropout": 0.1, "dim": 768, "dropout": 0.1,
        "hidden_dim": 3072, "initializer_range": 0.02, "max_position_embeddings": 512, "model_type": "distilbert", "n_heads": 12,
        "n_layers": 6, "pad_token_id": 0, "qa_dropout": 0.1, "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": false,
        "tie_weights_": true, "transformers_version": "4.10.0.dev0", "vocab_size": 30522
    })
}

pub fn albert_base_v2() -> Value {
    json!({
        "architectures": ["AlbertForMaskedLM"], "attention_probs_dropout_prob": 0, "bos_token_id": 2, "classifier_dropout_prob": 0.1,
        "down_scale_factor": 1, "embedding_size": 128, "eos_token_id": 3, "gap_size": 0, "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0, "hidden_size": 768, "initializer_range": 0.02, "inner_group_num": 1, "intermediate_size": 3072,
        "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "albert", "net_structure_type": 0,
        "num_attention_heads": 12, "num_hidden_groups": 1, "num_hidden_layers": 12, "num_memory_blocks": 0, "pad_token_id": 0,
        "type_vocab_size": 2, "vocab_size": 30000
    })
}

pub fn mpnet_base() -> Value {
    json!({
        "architectures": ["MPNetForMaskedLM"], "attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "eos_token_id": 2,
        "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
        "layer_norm_eps": 1e-5, "max_position_embeddings": 514, "model_type": "mpnet", "num_attention_heads": 12,
        "num_hidden_layers": 12, "pad_token_id": 1, "relative_attention_num_buckets": 32, "transformers_version": "4.0.0.dev0",
        "vocab_size": 30527
    })
}

pub fn modernbert_base() -> Value {
    json!({
        "architectures": ["ModernBertForMaskedLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 50281,
        "classifier_activation": "gelu", "classifier_bias": false, "classifier_dropout": 0.0, "classifier_pooling": "mean",
        "cls_token_id": 50281, "decoder_bias": true, "deterministic_flash_attn": false, "embedding_dropout": 0.0, "eos_token_id": 50282,
        "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "gradient_checkpointing": false, "hidden_activation": "gelu",
        "hidden_size": 768, "initializer_cutoff_factor": 2.0, "initializer_range": 0.02, "intermediate_size": 1152,
        "layer_norm_eps": 1e-5, "local_attention": 128, "local_rope_theta": 10000.0, "max_position_embeddings": 8192, "mlp_bias": false,
        "mlp_dropout": 0.0, "model_type": "modernbert", "norm_bias": false, "norm_eps": 1e-5, "num_attention_heads": 12,
        "num_hidden_layers": 22, "pad_token_id": 50283, "position_embedding_type": "absolute", "sep_token_id": 50282,
        "tie_word_embeddings": true, "torch_dtype": "float32", "transformers_version": "4.47.0.dev0", "vocab_size": 50368
    })
}
