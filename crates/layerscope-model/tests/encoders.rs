//! The encoder families read published `config.json` files and those of today's reference library.

use std::path::Path;

use layerscope_compute::Activation;
use layerscope_model::config::ConfigReader;
use layerscope_model::families::{FAMILIES, Family};
use layerscope_model::spec::{BiasSpec, BlockNorms, Gate, LearnedPositions, ModelSpec, NormSpec, Projection, QkvStorage};
use serde_json::{Value, json};

/// The specification and the unknown keys, or the one line that says what is wrong.
fn read(config: &Value) -> Result<(ModelSpec, Vec<String>), String> {
    let mut reader = ConfigReader::parse(Path::new("config.json"), config.to_string().as_bytes()).unwrap();
    let family = Family::of(&mut reader).map_err(|error| error.to_string())?;
    let spec = (family.spec)(&mut reader);
    Ok((spec, reader.finish().map_err(|error| error.to_string())?))
}

/// The specification of a configuration whose every key is known.
fn accepted(config: &Value) -> ModelSpec {
    let (spec, unknown) = read(config).unwrap();
    assert_eq!(unknown, Vec::<String>::new());
    spec
}

fn refused(config: &Value) -> String {
    let problem = read(config).unwrap_err();
    assert!(!problem.contains('\n'), "{problem}");
    problem
}

fn with(mut config: Value, changes: Value) -> Value {
    config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    config
}

fn without(mut config: Value, keys: &[&str]) -> Value {
    config.as_object_mut().unwrap().retain(|key, _| !keys.contains(&key.as_str()));
    config
}

/// What today's library writes into every configuration, and a family's own keys.
fn todays(own: Value) -> Value {
    let common = json!({
        "transformers_version": "5.22.2", "architectures": null, "output_hidden_states": false, "return_dict": true, "dtype": null,
        "chunk_size_feed_forward": 0, "is_encoder_decoder": false, "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
        "label2id": {"LABEL_0": 0, "LABEL_1": 1}, "problem_type": null, "tie_word_embeddings": true, "_name_or_path": "",
        "output_attentions": false, "initializer_range": 0.02
    });
    with(common, own)
}

/// A 12 x 768 encoder under BERT's keys, as today's library writes it.
fn todays_base(own: Value) -> Value {
    let base = json!({
        "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "max_position_embeddings": 512, "layer_norm_eps": 1e-12
    });
    todays(with(base, own))
}

fn bert_base_uncased() -> Value {
    json!({
        "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": false, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072, "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512, "model_type": "bert", "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0,
        "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0", "type_vocab_size": 2, "use_cache": true,
        "vocab_size": 30522
    })
}

fn roberta_base() -> Value {
    json!({
        "architectures": ["RobertaForMaskedLM"], "attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "eos_token_id": 2,
        "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
        "layer_norm_eps": 1e-5, "max_position_embeddings": 514, "model_type": "roberta", "num_attention_heads": 12,
        "num_hidden_layers": 12, "pad_token_id": 1, "type_vocab_size": 1, "vocab_size": 50265
    })
}

fn electra_small_discriminator() -> Value {
    json!({
        "architectures": ["ElectraForPreTraining"], "attention_probs_dropout_prob": 0.1, "embedding_size": 128, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "hidden_size": 256, "initializer_range": 0.02, "intermediate_size": 1024, "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512, "model_type": "electra", "num_attention_heads": 4, "num_hidden_layers": 12, "pad_token_id": 0,
        "position_embedding_type": "absolute", "summary_activation": "gelu", "summary_last_dropout": 0.1, "summary_type": "first",
        "summary_use_proj": true, "transformers_version": "4.7.0.dev0", "type_vocab_size": 2, "vocab_size": 30522
    })
}

fn distilbert_base_uncased() -> Value {
    json!({
        "activation": "gelu", "architectures": ["DistilBertForMaskedLM"], "attention_dropout": 0.1, "dim": 768, "dropout": 0.1,
        "hidden_dim": 3072, "initializer_range": 0.02, "max_position_embeddings": 512, "model_type": "distilbert", "n_heads": 12,
        "n_layers": 6, "pad_token_id": 0, "qa_dropout": 0.1, "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": false,
        "tie_weights_": true, "transformers_version": "4.10.0.dev0", "vocab_size": 30522
    })
}

fn albert_base_v2() -> Value {
    json!({
        "architectures": ["AlbertForMaskedLM"], "attention_probs_dropout_prob": 0, "bos_token_id": 2, "classifier_dropout_prob": 0.1,
        "down_scale_factor": 1, "embedding_size": 128, "eos_token_id": 3, "gap_size": 0, "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0, "hidden_size": 768, "initializer_range": 0.02, "inner_group_num": 1, "intermediate_size": 3072,
        "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "albert", "net_structure_type": 0,
        "num_attention_heads": 12, "num_hidden_groups": 1, "num_hidden_layers": 12, "num_memory_blocks": 0, "pad_token_id": 0,
        "type_vocab_size": 2, "vocab_size": 30000
    })
}

fn mpnet_base() -> Value {
    json!({
        "architectures": ["MPNetForMaskedLM"], "attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "eos_token_id": 2,
        "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
        "layer_norm_eps": 1e-5, "max_position_embeddings": 514, "model_type": "mpnet", "num_attention_heads": 12,
        "num_hidden_layers": 12, "pad_token_id": 1, "relative_attention_num_buckets": 32, "transformers_version": "4.0.0.dev0",
        "vocab_size": 30527
    })
}

fn modernbert_base() -> Value {
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

/// What a post-norm encoder of BERT's kind always is.
fn assert_post_norm(spec: &ModelSpec, layers: usize, heads: usize, epsilon: f32) {
    let norm = NormSpec::layer(epsilon);
    let head_dim = spec.width / heads;
    assert_eq!(spec.blocks.len(), layers);
    assert_eq!(spec.embedding.norm, Some(norm));
    assert_eq!(spec.embedding.scale, 1.0);
    assert_eq!(spec.final_norm, None);
    for block in &spec.blocks {
        assert_eq!(block.norms, BlockNorms::post(norm));
        assert_eq!((block.attention.heads, block.attention.kv_heads, block.attention.head_dim), (heads, heads, head_dim));
        assert_eq!(block.attention.scale, 1.0 / (head_dim as f32).sqrt());
        assert!(!block.attention.causal && block.attention.qkv_bias && block.attention.out_bias);
        assert_eq!((block.attention.window, &block.attention.rotary), (None, &None));
        assert_eq!(block.attention.qkv, QkvStorage::Separate);
        assert_eq!(block.feed_forward.gate, Gate::None);
    }
}

fn stored_blocks(spec: &ModelSpec) -> Vec<usize> {
    spec.blocks.iter().map(|block| block.weights).collect()
}

#[test]
fn bert_reads_published_and_todays_configurations() {
    let published = accepted(&bert_base_uncased());
    assert_post_norm(&published, 12, 12, 1e-12);
    assert_eq!((published.vocabulary, published.width, published.max_positions), (30522, 768, Some(512)));
    assert_eq!(published.embedding.positions, Some(LearnedPositions { rows: 512, offset: 0 }));
    assert_eq!((published.embedding.types, published.embedding.unnumbered), (2, None));
    assert_eq!(published.blocks[0].feed_forward.width, 3072);
    assert_eq!(published.blocks[0].feed_forward.activation, Activation::GeluErf);
    assert_eq!(stored_blocks(&published), (0..12).collect::<Vec<_>>());

    let todays = accepted(&todays_base(json!({
        "model_type": "bert", "vocab_size": 30522, "type_vocab_size": 2, "pad_token_id": 0, "use_cache": true, "classifier_dropout": null,
        "is_decoder": false, "add_cross_attention": false, "bos_token_id": null, "eos_token_id": null
    })));
    assert_eq!(todays, published);

    let minilm = with(
        bert_base_uncased(),
        json!({
            "_name_or_path": "nreimers/MiniLM-L6-H384-uncased", "architectures": ["BertModel"], "hidden_size": 384,
            "intermediate_size": 1536, "num_hidden_layers": 6
        }),
    );
    assert_post_norm(&accepted(&minilm), 6, 12, 1e-12);

    let multilingual = json!({
        "directionality": "bidi", "pooler_fc_size": 768, "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3,
        "pooler_size_per_head": 128, "pooler_type": "first_token_transform", "vocab_size": 119547
    });
    assert_eq!(accepted(&with(bert_base_uncased(), multilingual)).vocabulary, 119547);
}

#[test]
fn a_decoder_of_berts_kind_attends_backwards() {
    for config in [bert_base_uncased(), roberta_base(), electra_small_discriminator()] {
        let spec = accepted(&with(config, json!({"is_decoder": true})));
        assert!(spec.blocks.iter().all(|block| block.attention.causal));
    }
}

#[test]
fn roberta_numbers_positions_from_behind_the_padding_token() {
    let published = accepted(&roberta_base());
    assert_post_norm(&published, 12, 12, 1e-5);
    assert_eq!((published.vocabulary, published.width, published.max_positions), (50265, 768, Some(512)));
    assert_eq!(published.embedding.positions, Some(LearnedPositions { rows: 514, offset: 2 }));
    assert_eq!((published.embedding.types, published.embedding.unnumbered), (1, Some(1)));

    let todays = todays_base(json!({
        "model_type": "roberta", "vocab_size": 50265, "type_vocab_size": 2, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
        "use_cache": true, "classifier_dropout": null, "is_decoder": false, "add_cross_attention": false
    }));
    let spec = accepted(&todays);
    assert_post_norm(&spec, 12, 12, 1e-12);
    assert_eq!((spec.max_positions, spec.embedding.types), (Some(510), 2));

    let spec = accepted(&with(todays, json!({"pad_token_id": 4})));
    assert_eq!(spec.embedding.positions, Some(LearnedPositions { rows: 512, offset: 5 }));
    assert_eq!((spec.max_positions, spec.embedding.unnumbered), (Some(507), Some(4)));

    let problem = refused(&with(roberta_base(), json!({"pad_token_id": 600})));
    assert!(problem.contains("`max_position_embeddings` = 514 leaves no position behind the padding token 600"), "{problem}");
}

#[test]
fn xlm_roberta_is_a_family_of_its_own() {
    let published = with(
        roberta_base(),
        json!({
            "architectures": ["XLMRobertaForMaskedLM"], "model_type": "xlm-roberta", "output_past": true,
            "position_embedding_type": "absolute", "transformers_version": "4.17.0.dev0", "use_cache": true, "vocab_size": 250002
        }),
    );
    let spec = accepted(&published);
    assert_post_norm(&spec, 12, 12, 1e-5);
    assert_eq!((spec.vocabulary, spec.max_positions, spec.embedding.types), (250002, Some(512), 1));

    let spec = accepted(&todays_base(json!({
        "model_type": "xlm-roberta", "vocab_size": 30522, "type_vocab_size": 2, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
        "use_cache": true, "classifier_dropout": null, "is_decoder": false, "add_cross_attention": false
    })));
    assert_eq!((spec.vocabulary, spec.max_positions), (30522, Some(510)));
    assert_eq!(FAMILIES.iter().filter(|family| family.model_types == ["xlm-roberta"]).count(), 1);
}

#[test]
fn electra_projects_only_where_widths_differ() {
    let published = accepted(&electra_small_discriminator());
    assert_post_norm(&published, 12, 4, 1e-12);
    assert_eq!((published.width, published.embedding.width, published.max_positions), (256, 128, Some(512)));
    assert_eq!(published.embedding.projection, Some(Projection { bias: true, before_positions: false }));

    let todays = accepted(&todays(json!({
        "model_type": "electra", "vocab_size": 30522, "embedding_size": 128, "hidden_size": 256, "num_hidden_layers": 12,
        "num_attention_heads": 4, "intermediate_size": 1024, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1, "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
        "summary_type": "first", "summary_use_proj": true, "summary_activation": "gelu", "summary_last_dropout": 0.1, "pad_token_id": 0,
        "use_cache": true, "classifier_dropout": null, "is_decoder": false, "add_cross_attention": false, "bos_token_id": null,
        "eos_token_id": null
    })));
    assert_eq!(todays, published);

    let base = with(electra_small_discriminator(), json!({"embedding_size": 256}));
    assert_eq!(accepted(&base).embedding.projection, None);
}

#[test]
fn distilbert_reads_its_own_keys() {
    let published = accepted(&distilbert_base_uncased());
    assert_post_norm(&published, 6, 12, 1e-12);
    assert_eq!((published.vocabulary, published.width, published.max_positions), (30522, 768, Some(512)));
    assert_eq!((published.embedding.types, published.blocks[0].feed_forward.width), (0, 3072));

    let todays = accepted(&todays(json!({
        "model_type": "distilbert", "vocab_size": 30522, "max_position_embeddings": 512, "sinusoidal_pos_embds": false, "n_layers": 6,
        "n_heads": 12, "dim": 768, "hidden_dim": 3072, "dropout": 0.1, "attention_dropout": 0.1, "activation": "gelu", "qa_dropout": 0.1,
        "seq_classif_dropout": 0.2, "pad_token_id": 0, "eos_token_id": null, "bos_token_id": null
    })));
    assert_eq!(todays, published);

    let relu = with(distilbert_base_uncased(), json!({"activation": "relu"}));
    assert_eq!(accepted(&relu).blocks[5].feed_forward.activation, Activation::Relu);
}

#[test]
fn albert_shares_weights_between_blocks() {
    let published = accepted(&albert_base_v2());
    assert_post_norm(&published, 12, 12, 1e-12);
    assert_eq!((published.vocabulary, published.width, published.embedding.width), (30000, 768, 128));
    assert_eq!(published.embedding.projection, Some(Projection { bias: true, before_positions: false }));
    assert_eq!(published.blocks[0].feed_forward.activation, Activation::GeluTanh);
    assert_eq!(stored_blocks(&published), [0; 12]);

    let todays = todays(json!({
        "model_type": "albert", "vocab_size": 30000, "embedding_size": 128, "hidden_size": 4096, "num_hidden_layers": 12,
        "num_hidden_groups": 1, "num_attention_heads": 64, "intermediate_size": 16384, "inner_group_num": 1, "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "max_position_embeddings": 512, "type_vocab_size": 2,
        "layer_norm_eps": 1e-12, "classifier_dropout_prob": 0.1, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3
    }));
    assert_post_norm(&accepted(&todays), 12, 64, 1e-12);
    assert_eq!(accepted(&without(todays, &["hidden_act"])).blocks[0].feed_forward.activation, Activation::GeluTanh);

    let groups = |groups: usize| with(albert_base_v2(), json!({"num_hidden_groups": groups}));
    assert_eq!(stored_blocks(&accepted(&groups(3))), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(stored_blocks(&accepted(&groups(5))), [0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4]);
    assert!(refused(&groups(13)).contains("`num_hidden_groups` = 13 should be between 1 and `num_hidden_layers` = 12"));
    assert!(refused(&groups(0)).contains("`num_hidden_groups` = 0"));

    let equal = accepted(&with(albert_base_v2(), json!({"embedding_size": 768})));
    assert!(equal.embedding.projection.is_some(), "there is a projection even between equal widths");
    assert!(refused(&with(albert_base_v2(), json!({"inner_group_num": 2}))).contains("`inner_group_num` = 2"));
}

#[test]
fn mpnet_biases_scores_by_distance() {
    let published = accepted(&mpnet_base());
    assert_post_norm(&published, 12, 12, 1e-5);
    assert_eq!((published.vocabulary, published.max_positions, published.embedding.types), (30527, Some(512), 0));
    assert_eq!(published.embedding.positions, Some(LearnedPositions { rows: 514, offset: 2 }));
    let bias = Some(BiasSpec::Buckets { buckets: 32, rows: 32, max_distance: 128 });
    assert!(published.blocks.iter().all(|block| block.attention.bias == bias));

    let todays = todays_base(json!({
        "model_type": "mpnet", "vocab_size": 30527, "relative_attention_num_buckets": 32, "pad_token_id": 1, "bos_token_id": 0,
        "eos_token_id": 2
    }));
    assert_eq!(accepted(&todays).max_positions, Some(510));
    // The padding token is a constant of the reference library's code here.
    let padded = accepted(&with(todays, json!({"pad_token_id": 0})));
    assert_eq!((padded.max_positions, padded.embedding.unnumbered), (Some(510), Some(1)));

    let problem = refused(&with(mpnet_base(), json!({"relative_attention_num_buckets": 16})));
    assert!(problem.contains("`relative_attention_num_buckets` = 16"), "{problem}");
}

#[test]
fn modernbert_alternates_windows_and_rotary_bases() {
    let published = accepted(&modernbert_base());
    assert_eq!((published.vocabulary, published.width, published.max_positions), (50368, 768, Some(8192)));
    let norm = NormSpec { beta: false, ..NormSpec::layer(1e-5) };
    assert_eq!((published.embedding.norm, published.final_norm), (Some(norm), Some(norm)));
    assert_eq!((published.embedding.positions, published.embedding.types), (None, 0));
    assert_eq!(published.blocks.len(), 22);
    for (layer, block) in published.blocks.iter().enumerate() {
        let (window, base) = if layer % 3 == 0 { (None, 160_000.0) } else { (Some(65), 10_000.0) };
        let rotary = block.attention.rotary.as_ref().unwrap();
        assert_eq!((block.attention.window, rotary.base, rotary.dim), (window, base, 64));
        assert_eq!(block.attention.qkv, QkvStorage::FusedBlocks);
        assert_eq!((block.attention.heads, block.attention.scale), (12, 0.125));
        assert!(!block.attention.causal && !block.attention.qkv_bias && !block.attention.out_bias);
        assert_eq!((block.feed_forward.width, block.feed_forward.gate), (1152, Gate::Fused));
        assert!(!block.feed_forward.in_bias && !block.feed_forward.out_bias);
        let mut norms = BlockNorms::pre(norm);
        if layer == 0 {
            norms.attention_in = None;
        }
        assert_eq!(block.norms, norms);
    }

    let layer_types: Vec<_> = (0..22).map(|layer| if layer % 3 == 0 { "full_attention" } else { "sliding_attention" }).collect();
    let todays = todays(json!({
        "model_type": "modernbert", "vocab_size": 50368, "hidden_size": 768, "intermediate_size": 1152, "num_hidden_layers": 22,
        "num_attention_heads": 12, "hidden_activation": "gelu", "max_position_embeddings": 8192, "initializer_cutoff_factor": 2.0,
        "norm_eps": 1e-5, "norm_bias": false, "pad_token_id": 50283, "eos_token_id": 50282, "bos_token_id": 50281, "cls_token_id": 50281,
        "sep_token_id": 50282, "attention_bias": false, "attention_dropout": 0.0, "layer_types": layer_types,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "default", "rope_theta": 160000.0}
        },
        "local_attention": 128, "embedding_dropout": 0.0, "mlp_bias": false, "mlp_dropout": 0.0, "decoder_bias": true,
        "classifier_pooling": "cls", "classifier_dropout": 0.0, "classifier_bias": false, "classifier_activation": "gelu",
        "deterministic_flash_attn": false, "sparse_prediction": false, "sparse_pred_ignore_index": -100
    }));
    assert_eq!(accepted(&todays), published);
}

#[test]
fn modernbert_reads_every_axis() {
    let small = with(modernbert_base(), json!({"num_hidden_layers": 4}));
    let windows = |config: &Value| accepted(config).blocks.iter().map(|block| block.attention.window).collect::<Vec<_>>();
    assert_eq!(windows(&with(small.clone(), json!({"local_attention": 9}))), [None, Some(5), Some(5), None]);
    assert_eq!(windows(&with(small.clone(), json!({"sliding_window": 9}))), [None, Some(10), Some(10), None]);
    assert_eq!(windows(&with(small.clone(), json!({"global_attn_every_n_layers": 2}))), [None, Some(65), None, Some(65)]);
    let types = json!({"layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]});
    assert_eq!(windows(&with(small.clone(), types)), [Some(65), None, None, Some(65)]);

    let biased = accepted(&with(small.clone(), json!({"attention_bias": true, "mlp_bias": true, "norm_bias": true})));
    assert!(biased.blocks[0].attention.qkv_bias && biased.blocks[0].attention.out_bias);
    assert!(biased.blocks[0].feed_forward.in_bias && biased.blocks[0].feed_forward.out_bias);
    assert_eq!(biased.final_norm, Some(NormSpec::layer(1e-5)));

    let bases = |config: &Value| {
        let spec = accepted(config);
        [0, 1].map(|layer| spec.blocks[layer].attention.rotary.as_ref().unwrap().base)
    };
    assert_eq!(bases(&without(small.clone(), &["global_rope_theta", "local_rope_theta"])), [160_000.0, 10_000.0]);
    let nested = json!({"rope_parameters": {"sliding_attention": {"rope_theta": 5.0}}, "global_rope_theta": 7.0});
    assert_eq!(bases(&with(small.clone(), nested)), [7.0, 5.0]);

    for (changes, expected) in [
        (json!({"rope_scaling": {"type": "linear", "factor": 2.0}}), "`rope_scaling` = "),
        (json!({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}), "rope_parameters: full_attention: `rope_type` = \"yarn\""),
        (json!({"rope_parameters": {"rope_theta": 5.0}}), "rope_parameters: `rope_theta` = 5.0"),
        (json!({"layer_types": ["full_attention"]}), "`layer_types` lists 1 layers, `num_hidden_layers` = 4"),
        (json!({"layer_types": ["linear_attention", "full_attention", "a", "b"]}), "`layer_types` = linear_attention"),
        (json!({"global_attn_every_n_layers": 0}), "`global_attn_every_n_layers` should be at least 1"),
        (json!({"head_dim": 32}), "`head_dim` = 32"),
        (json!({"hidden_size": 36}), "even width of heads, found 3"),
    ] {
        let problem = refused(&with(small.clone(), changes));
        assert!(problem.contains(expected), "{problem}");
    }
}

#[test]
fn what_is_not_computed_is_refused_by_name() {
    for config in [bert_base_uncased(), roberta_base(), electra_small_discriminator(), albert_base_v2(), mpnet_base(), modernbert_base()] {
        let problem = refused(&with(config, json!({"position_embedding_type": "relative_key_query"})));
        assert!(problem.contains("`position_embedding_type` = \"relative_key_query\""), "{problem}");
    }
    for (config, key) in [
        (bert_base_uncased(), "hidden_act"),
        (roberta_base(), "hidden_act"),
        (electra_small_discriminator(), "hidden_act"),
        (distilbert_base_uncased(), "activation"),
        (albert_base_v2(), "hidden_act"),
        (mpnet_base(), "hidden_act"),
        (modernbert_base(), "hidden_activation"),
    ] {
        let problem = refused(&with(config, json!({key: "mish"})));
        assert!(problem.contains(&format!("`{key}` = mish changes the computation")), "{problem}");
    }
    let problem = refused(&with(bert_base_uncased(), json!({"is_decoder": true, "add_cross_attention": true})));
    assert!(problem.contains("`add_cross_attention` = true"), "{problem}");
}

#[test]
fn contradictions_and_missing_keys_stand_in_one_line() {
    for config in [bert_base_uncased(), roberta_base(), electra_small_discriminator(), albert_base_v2(), mpnet_base(), modernbert_base()] {
        let problem = refused(&with(config, json!({"num_attention_heads": 7})));
        assert!(problem.contains("`num_attention_heads` = 7 does not divide `hidden_size`"), "{problem}");
    }
    let problem = refused(&with(distilbert_base_uncased(), json!({"n_heads": 7})));
    assert!(problem.contains("`n_heads` = 7 does not divide `dim` = 768"), "{problem}");

    let keys = ["intermediate_size", "num_hidden_layers", "vocab_size"];
    for config in [bert_base_uncased(), roberta_base(), electra_small_discriminator(), albert_base_v2(), mpnet_base(), modernbert_base()] {
        let problem = refused(&without(config, &keys));
        assert!(keys.iter().all(|key| problem.contains(&format!("`{key}`"))), "{problem}");
        assert_eq!(problem.matches("missing").count(), 1, "{problem}");
    }
    let problem = refused(&without(distilbert_base_uncased(), &["hidden_dim", "n_layers"]));
    assert!(problem.contains("missing `hidden_dim`, `n_layers or num_hidden_layers`"), "{problem}");
}

#[test]
fn unknown_keys_are_reported() {
    let (_, unknown) = read(&with(bert_base_uncased(), json!({"stochastic_depth": 0.5}))).unwrap();
    assert_eq!(unknown, ["stochastic_depth"]);
    let nested = json!({"rope_parameters": {"full_attention": {"surprise": 1}}});
    let (_, unknown) = read(&with(modernbert_base(), nested)).unwrap();
    assert_eq!(unknown, ["rope_parameters.full_attention.surprise"]);
}
