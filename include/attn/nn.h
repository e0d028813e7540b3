/* nn.h: Transformers: configuration, parameters, forward and backward, and the layers they are made
 * of, over attn.h.
 *
 * Letters: d model width, h heads, dk and dv widths of a head's keys and values, T rows (tokens) of
 * a packed batch, V words of the vocabulary, N layers. The rules of attn.h hold: views are
 * borrowed, nothing is written on error, nothing prints, bits do not depend on threads.
 *
 * One block of a stack, x [T, d] (Sub: self-attention, cross-attention in decoders that have an
 * encoder, feed-forward; Drop: dropout):
 *
 *     post   x <- Norm(x + Drop(Sub(x)))
 *     pre    x <- x + Drop(Sub(Norm(x)))        and, unless told otherwise, one Norm at the end
 *
 *     attention      Concat_i(Attn(y Wq_i^T, z Wk_i^T, z Wv_i^T)) Wo^T        z = y, or the encoder
 *     feed-forward   Drop(act(y W1^T + b1)) W2^T + b2,     gated: act(y Wg^T) * (y W1^T + b1)
 *
 * Weights of linear layers are [out, in], as PyTorch has them.
 *
 * Sources: Vaswani et al., "Attention Is All You Need" (2017); pre-norm: Wang et al. (2019);
 * rotary: Su et al. (2021); relative buckets: Raffel et al. (2019); gated: Shazeer (2020); additive
 * attention: Bahdanau et al. (2014). Departures between implementations are named in docs/nn.md.
 */
#ifndef ATTN_NN_H
#define ATTN_NN_H

#include "attn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Configuration -------------------------------------------------------------------------- */

typedef enum attn_stack {
    ATTN_STACK_ENCODER_DECODER = 0,
    ATTN_STACK_DECODER, /* causal, no cross-attention */
    ATTN_STACK_ENCODER
} attn_stack;

typedef enum attn_norm {
    ATTN_NORM_LAYER =
        0,         /* (x - mean) / sqrt(var + eps) * w + b; var is the mean square deviation */
    ATTN_NORM_RMS, /* x / sqrt(mean x^2 + eps) * w */
    ATTN_NORM_L2   /* x / |x|, 0 for 0; not in place of the norms of blocks */
} attn_norm;

/* What is done to each head's queries and keys before they turn (rotary) and meet. */
typedef enum attn_qk_norm {
    ATTN_QK_NONE = 0,
    ATTN_QK_L2,   /* cosines */
    ATTN_QK_RMS,  /* with weights [dk] */
    ATTN_QK_LAYER /* with weights and biases [dk] */
} attn_qk_norm;

typedef enum attn_place { ATTN_PLACE_POST = 0, ATTN_PLACE_PRE } attn_place;

/* A choice whose default depends on others. */
typedef enum attn_choice { ATTN_DEFAULT = 0, ATTN_YES, ATTN_NO } attn_choice;

/* Row p of a stack is position p + position_offset. Angle of pair k at position p: */
typedef enum attn_positions {
    ATTN_POSITIONS_PAPER = 0, /* columns 2k, 2k+1: sin, cos of p base^(-2k/d) */
    ATTN_POSITIONS_T2T,    /* column k, k + d/2: sin, cos of p base^(-k/(d/2 - 1)); odd d: last 0 */
    ATTN_POSITIONS_MARIAN, /* column k, k + (d+1)/2: sin, cos of p base^(-2k/d) */
    ATTN_POSITIONS_LEARNED, /* a table of max_positions rows for each stack */
    ATTN_POSITIONS_ROTARY,  /* q, k turned: channels i and i + rotary/2 by p base^(-2i/rotary) */
    ATTN_POSITIONS_ROTARY_PAIRS, /* the same with channels 2i and 2i + 1 */
    ATTN_POSITIONS_T5, /* a learned bias for each head and bucket of key - query, self-attention */
    ATTN_POSITIONS_ALIBI, /* attn_alibi_slopes, self-attention */
    ATTN_POSITIONS_NONE
} attn_positions;

/* Which projections have a bias. */
enum {
    ATTN_BIAS_Q = 1,
    ATTN_BIAS_K = 2,
    ATTN_BIAS_V = 4,
    ATTN_BIAS_OUT = 8,
    ATTN_BIAS_FF = 16, /* W1 (and Wg) and W2 */
    ATTN_BIAS_ALL = 31
};

/* What the decoder's row 0 sees; row i > 0 sees target id i - 1. */
typedef enum attn_start {
    ATTN_START_ZERO = 0, /* a zero vector, to which the position is added */
    ATTN_START_TOKEN,    /* the embedding of start_token */
    ATTN_START_NONE      /* no shift: row i sees target id i, and the caller shifts what it wants */
} attn_start;

typedef enum attn_score {
    ATTN_SCORE_DOT = 0,  /* q . k times the scale */
    ATTN_SCORE_ADDITIVE, /* w . tanh(q + k), w [h, dk] learned, no scale: Bahdanau, with Wq, Wk and
                          * bq of width dk a head */
    ATTN_SCORE_GATE      /* w . k times the scale: gating. Every row has the same query, which is
                     * learned; there is no Wq, and rows differ in what they may see alone */
} attn_score;

/* Draws of attn_model_create. Biases begin at 0, norms' weights at 1. */
typedef enum attn_init {
    ATTN_INIT_XAVIER = 0, /* matrices: uniform within sqrt(6 / (in + out)), each on its own;
                             embeddings, learned positions and T5 tables: normal, variance 1/d */
    ATTN_INIT_NORMAL      /* everything normal with init_std; Wo and W2 times 1 / sqrt(2 N) */
} attn_init;

/* Zero means the default given first: a vocabulary alone is the paper's base model without biases,
 * untied and without dropout. */
typedef struct attn_model_config {
    size_t struct_size;
    attn_type type; /* of parameters and activations: ATTN_F32 or ATTN_F64 */
    attn_stack stack;
    int64_t vocabulary; /* V of decoder and output, or of the encoder if there is no decoder */
    int64_t source_vocabulary;              /* of the encoder beside a decoder. 0: vocabulary */
    int64_t encoder_layers, decoder_layers; /* 6 each, where there is such a stack */
    int64_t d;                              /* 512 */
    int64_t ff;                             /* 4 d */
    int64_t heads;                          /* 8 */
    int64_t kv_heads;                       /* heads; a divisor of it */
    int64_t dk, dv;                         /* d / heads; dk */
    int biases;                             /* sum of ATTN_BIAS_... */

    attn_norm norm; /* LAYER or RMS */
    attn_place place;
    double norm_eps;            /* 1e-5 */
    int norm_no_bias;           /* non-zero: LAYER without b */
    int norm_plus_one;          /* non-zero: weights are stored less 1, as Gemma has them */
    attn_choice final_norm;     /* default: pre yes, post no */
    attn_choice embedding_norm; /* a norm after the sum of embedding and position. Default: no */

    attn_activation activation; /* NONE means RELU */
    int gated;

    attn_positions positions;
    int64_t position_offset;
    int64_t max_positions; /* LEARNED: rows of the table, 512; a longer sequence is an error */
    double position_base;  /* 10000 */
    int64_t rotary;        /* channels that turn, even: dk */
    int64_t t5_buckets, t5_max_distance; /* 32, 128 */

    int tie_embeddings;     /* one matrix for source and target; vocabularies must be the same */
    int tie_output;         /* the output matrix is the target embedding */
    double embedding_scale; /* sqrt(d); 1: none */
    double logit_scale;     /* 1 */
    int output_bias;
    attn_choice
        output; /* whether there is an output matrix. Default: with a decoder of ids yes, else no */

    double dropout;           /* of Sub's result and of embeddings, 0 <= p < 1 */
    double dropout_attention; /* of attention weights */
    double dropout_ff;        /* after the activation */

    attn_qk_norm qk_norm;
    int qk_temperature;      /* non-zero: a learned factor for each head's logits takes the place of
                              * the scale, from which it starts */
    int has_attention_scale; /* non-zero: attention_scale is given */
    double attention_scale;  /* 1 / sqrt(dk), of cosines sqrt(dk) */
    double softcap;          /* of attention logits: 0, none */
    attn_score score;

    attn_start start;
    int64_t start_token;

    attn_init init;
    double init_std; /* 0.02 */

    int64_t
        token_types; /* > 0: each stack has a table of so many rows, one of which is added to each
                          * embedding (not scaled): attn_batch says which */

    /* > 0, with an encoder and a decoder: the decoder reads no target, but a table of so many rows,
     * the same for each sequence, as if they were ids of a vocabulary of their own without shift;
     * they see one another (not causal) and the encoder, which they pool. */
    int64_t queries;
} attn_model_config;
#define ATTN_MODEL_CONFIG_INIT ATTN_INIT(attn_model_config)

/* Checks *config and replaces every 0 that means a default by that default. Doing it twice changes
 * nothing. Errors: ATTN_E_ARGUMENT, ATTN_E_SHAPE; *config is then untouched. */
ATTN_API attn_status attn_model_config_complete(attn_model_config *config, attn_error *err);

/* Number of parameters in closed form, tied matrices once; -1 if the configuration is wrong or the
 * number does not fit. */
ATTN_API int64_t attn_model_config_parameters(const attn_model_config *config);

/* --- Parameters ----------------------------------------------------------------------------- */

/* A model: a configuration and its parameters, which are one block of elements of one type. The
 * context must outlive it. Passes only read it; many may run at once. */
typedef struct attn_model attn_model;

enum { ATTN_PARAM_DECAY = 1 /* a matrix or table: weight decay applies. Not norms, not biases */ };

/* A tensor: `count` elements in C order from element `offset` of the block on. Gradients, moments
 * and averages are blocks of the same layout. */
typedef struct attn_param {
    const char *name; /* "encoder.layers.0.self.q.weight"; belongs to the model */
    int rank;
    int64_t size[4]; /* those from `rank` on are 1 */
    int64_t offset;  /* a multiple of 16; the gaps are zero */
    int64_t count;
    int flags;
} attn_param;

/* Makes a model with drawn parameters: a function of the configuration and the seed alone, with the
 * same bits on every machine. Normal numbers are sums of eight uniform ones. On failure *out is
 * NULL. Errors: as attn_model_config_complete, and ATTN_E_MEMORY. */
ATTN_API attn_status attn_model_create(const attn_ctx *ctx, const attn_model_config *config,
                                       uint64_t seed, attn_model **out, attn_error *err);
ATTN_API void attn_model_destroy(attn_model *model);

ATTN_API const attn_ctx *attn_model_ctx(const attn_model *model);
/* Completed. */
ATTN_API const attn_model_config *attn_model_get_config(const attn_model *model);

/* The block: 64-byte aligned, the caller may change it between passes; and its elements, a multiple
 * of 16, which is what gradients and moments need too. */
ATTN_API void *attn_model_weights(const attn_model *model);
ATTN_API int64_t attn_model_elements(const attn_model *model);

/* Tensors in the order of the block; NULL if i is out of range or there is no such name. Tied
 * tensors are there once: "embedding.weight" [V, d]; untied "encoder.embedding.weight",
 * "decoder.embedding.weight" and "output.weight"; "output.bias". A table of queries is
 * "decoder.queries.weight". */
ATTN_API size_t attn_model_param_count(const attn_model *model);
ATTN_API const attn_param *attn_model_param(const attn_model *model, size_t i);
ATTN_API const attn_param *attn_model_find_param(const attn_model *model, const char *name);

/* View of a tensor in a block of this layout (the model's weights, gradients, ...): [1, 1, rows,
 * columns], rank 1 being one row. */
ATTN_API attn_view attn_param_view(const attn_model *model, const attn_param *param,
                                   const void *block);

/* The matrix [1, 1, V, d] that turns hidden states into logits, wherever it lies in `block`, tied
 * or not, and its bias [1, 1, 1, V]; absent (zeroed) if the model has none. Logits are
 * logit_scale * hidden W^T + bias. */
ATTN_API attn_view attn_model_output_weight(const attn_model *model, const void *block);
ATTN_API attn_view attn_model_output_bias(const attn_model *model, const void *block);

/* --- Files ---------------------------------------------------------------------------------- */

/* Writes a block of the model's layout (NULL: its own weights) as .safetensors, with the
 * configuration in the metadata; as attn_file_write (io.h) writes: whole or not at all. Errors: its
 * own. */
ATTN_API attn_status attn_model_save(const attn_model *model, const void *block, const char *path,
                                     attn_error *err);

/* The same with elements of `type`: the model's own, or ATTN_F16 or ATTN_BF16, each element rounded
 * to the nearest of that type (ties to even; of an f64 model by way of f32). The configuration
 * stays the model's. Error besides: ATTN_E_ARGUMENT for another type and for a finite element that
 * would become infinite; nothing is written then. */
ATTN_API attn_status attn_model_save_as(const attn_model *model, const void *block, attn_type type,
                                        const char *path, attn_error *err);

/* Makes a model of such a file. Every tensor of the configuration must be there with its sizes, and
 * no other; its elements are of the configuration's type, or f16 or bf16, which are widened to it
 * without loss. A file cannot ask for more memory than four times its own size. On failure *out is
 * NULL. Errors: as attn_file_open, ATTN_E_FORMAT for a configuration or tensors that do not fit,
 * ATTN_E_MEMORY. */
ATTN_API attn_status attn_model_load(const attn_ctx *ctx, const char *path, attn_model **out,
                                     attn_error *err);

/* The same of a file's bytes, which are no longer needed afterwards. */
ATTN_API attn_status attn_model_load_memory(const attn_ctx *ctx, const void *bytes, size_t size,
                                            attn_model **out, attn_error *err);

/* --- Layers --------------------------------------------------------------------------------- */

/* The layers between matrix products (attn_gemm) and attention (attn_forward), for those who build
 * their own models: the code that models run. Each has a struct that serves both directions; what a
 * direction does not name is ignored. Views are [1, 1, T, n] unless told otherwise, with adjacent
 * columns, f32 or all of them f64; vectors are [1, 1, 1, n]. Gradients of parameters are added to
 * what is there (absent: not wanted); those of inputs are overwritten. Outputs overlap nothing but
 * what is named. Nothing is allocated unless told otherwise. Bits do not depend on threads. Errors:
 * ATTN_E_ARGUMENT, ATTN_E_SHAPE. Any number of calls may run at once on one context. */

typedef struct attn_norm_args {
    size_t struct_size;
    attn_norm kind;
    double eps;             /* not read by L2 */
    int plus_one;           /* non-zero: weight + 1 in place of weight */
    attn_view x;            /* [1, 1, T, n] */
    attn_view weight, bias; /* [1, 1, 1, n], or absent (1, 0) */
    attn_view mean, rstd;   /* [1, 1, 1, T]: written by forward, read by backward */
    attn_view out;          /* forward; may be x, if no backward pass follows */
    attn_view dout, add;    /* backward; add may be absent (0) */
    attn_view dx;           /* add + what comes from dout; may be dout or add; or absent */
    attn_view dweight, dbias;
} attn_norm_args;
#define ATTN_NORM_ARGS_INIT ATTN_INIT(attn_norm_args)

/* out = norm(x), each row by itself; see attn_norm. */
ATTN_API attn_status attn_norm_forward(const attn_ctx *ctx, const attn_norm_args *args,
                                       attn_error *err);
ATTN_API attn_status attn_norm_backward(const attn_ctx *ctx, const attn_norm_args *args,
                                        attn_error *err);

typedef struct attn_activation_args {
    size_t struct_size;
    attn_activation activation;
    attn_view x, times; /* [1, 1, T, n]; times may be absent (1): the other half of a gate */
    attn_view out;      /* forward; may be x, if no backward pass follows */
    attn_view dout;
    attn_view dx, dtimes; /* dx may be dout's or x's memory, dtimes dout's or times' (not both
                           * dout's); dtimes is needed with times */
} attn_activation_args;
#define ATTN_ACTIVATION_ARGS_INIT ATTN_INIT(attn_activation_args)

/* out = act(x) * times. The slope of relu at 0 is 0. */
ATTN_API attn_status attn_activation_forward(const attn_ctx *ctx, const attn_activation_args *args,
                                             attn_error *err);
ATTN_API attn_status attn_activation_backward(const attn_ctx *ctx, const attn_activation_args *args,
                                              attn_error *err);

typedef struct attn_linear_args {
    size_t struct_size;
    attn_view x;       /* [1, 1, T, in] */
    attn_view weight;  /* [1, 1, out, in] */
    attn_view dout;    /* [1, 1, T, out] */
    attn_view dx, add; /* dx = add + dout W; add may be absent (0) or dx; dx may be absent */
    attn_view dweight; /* += dout^T x; or absent */
    attn_view dbias;   /* [1, 1, 1, out], += sum of dout; or absent */
} attn_linear_args;
#define ATTN_LINEAR_ARGS_INIT ATTN_INIT(attn_linear_args)

/* The way back through x W^T + b, whose way there is attn_gemm; the products allocate workspace and
 * free it. Errors: those of attn_gemm too. */
ATTN_API attn_status attn_linear_backward(const attn_ctx *ctx, const attn_linear_args *args,
                                          attn_error *err);

/* Tokens and where they stand become rows. -1 among ids, and nowhere else, is a row of zeros. */
typedef struct attn_embedding_args {
    size_t struct_size;
    const int32_t *ids;    /* [T]: rows of table */
    const int32_t *places; /* [T]: rows of positions; NULL: 0, 1, ... */
    const int32_t *types;  /* [T]: rows of type_table; NULL: row 0 */
    double scale;          /* of table's rows; 0: 1 */
    attn_view table;       /* [1, 1, V, n] */
    attn_view positions;   /* [1, 1, P, n], learned or from attn_sinusoids; or absent (0) */
    attn_view type_table;  /* [1, 1, K, n], or absent (0) */
    attn_view out;         /* forward */
    attn_view dout;        /* backward */
    attn_view dtable, dpositions, dtype_table; /* the tables' sizes */
} attn_embedding_args;
#define ATTN_EMBEDDING_ARGS_INIT ATTN_INIT(attn_embedding_args)

/* out[t] = scale table[ids[t]] + positions[places[t]] + type_table[types[t]]. Rows of tables that
 * several t read get their gradients in the order of t. Errors: ATTN_E_ARGUMENT also for an id
 * without a row. */
ATTN_API attn_status attn_embedding_forward(const attn_ctx *ctx, const attn_embedding_args *args,
                                            attn_error *err);
ATTN_API attn_status attn_embedding_backward(const attn_ctx *ctx, const attn_embedding_args *args,
                                             attn_error *err);

/* Writes sines and cosines of the positions offset, offset + 1, ... to the rows of out [1, 1, P,
 * n], in one of the first three layouts of attn_positions (d is n). base 0: 10000. */
ATTN_API attn_status attn_sinusoids(const attn_ctx *ctx, attn_positions layout, double base,
                                    int64_t offset, const attn_view *out, attn_error *err);

/* Writes what attn_rotary_forward reads to out [1, 3, P, pairs], dense: cosines, sines and negated
 * sines of p base^(-i/pairs) for the positions p = offset, offset + 1, ... base 0: 10000. */
ATTN_API attn_status attn_rotary_table(const attn_ctx *ctx, double base, int64_t offset,
                                       const attn_view *out, attn_error *err);

typedef struct attn_rotary_args {
    size_t struct_size;
    attn_positions positions; /* ROTARY: channels i and i + pairs; ROTARY_PAIRS: 2i and 2i + 1 */
    attn_view table;          /* [1, 3, P, pairs] of attn_rotary_table */
    const int32_t *places;    /* [T]: rows of the table; NULL: 0, 1, ... */
    attn_view x; /* [1, h, T, w], w >= 2 pairs, any strides of heads and rows: turned in place; on
                  * the way back the gradient. Channels from 2 pairs on stay as they are */
} attn_rotary_args;
#define ATTN_ROTARY_ARGS_INIT ATTN_INIT(attn_rotary_args)

/* (x0, x1) <- (x0 cos - x1 sin, x1 cos + x0 sin); backward turns the other way. */
ATTN_API attn_status attn_rotary_forward(const attn_ctx *ctx, const attn_rotary_args *args,
                                         attn_error *err);
ATTN_API attn_status attn_rotary_backward(const attn_ctx *ctx, const attn_rotary_args *args,
                                          attn_error *err);

typedef struct attn_dropout_args {
    size_t struct_size;
    double rate; /* 0 <= rate < 1 */
    /* What is dropped is a function of these, the row's position and sequence, and the column: */
    uint64_t seed;
    uint32_t site;                        /* one for each place of a model that drops */
    const int32_t *positions, *sequences; /* [T]; NULL: 0, 1, ... and zeros */
    uint64_t *bits;        /* [T][(n + 63) / 64], kept: written by forward, read by backward */
    attn_view x, add, out; /* [1, 1, T, n]; add may be absent (0), out may be x or add */
    attn_view dout, dx;    /* backward: dx may be dout */
} attn_dropout_args;
#define ATTN_DROPOUT_ARGS_INIT ATTN_INIT(attn_dropout_args)

/* out = add + (kept ? x / (1 - rate) : 0);  dx = kept ? dout / (1 - rate) : 0. */
ATTN_API attn_status attn_dropout_forward(const attn_ctx *ctx, const attn_dropout_args *args,
                                          attn_error *err);
ATTN_API attn_status attn_dropout_backward(const attn_ctx *ctx, const attn_dropout_args *args,
                                           attn_error *err);

/* Additive attention of packed sequences. Views [1, heads, rows, width] have any strides of heads
 * and rows. Queries and keys are what attn_gemm has made of their inputs; a bias is in queries. */
typedef struct attn_additive_args {
    size_t struct_size;
    int causal;                         /* row i of a sequence sees its keys 0 .. i */
    int64_t segments;                   /* sequences; 0: one */
    const int64_t *q_starts, *k_starts; /* [segments + 1], as in attn_mask; NULL for one */
    attn_view q;                        /* [1, h, Tq, dk] */
    attn_view k, v;                     /* [1, hk, Tk, dk], [1, hk, Tk, dv]; hk divides h */
    attn_view w;                        /* [1, 1, h, dk], dense */
    attn_view out;                      /* [1, h, Tq, dv]: written by forward, read by backward */
    attn_view weights; /* [1, h, Tq, n], likewise: column j is key j of the row's own sequence,
                        * zeros where there is none; n >= the longest */
    attn_view dout;
    attn_view dq, dk, dv; /* all of them */
    attn_view dw;         /* dense; added to */
} attn_additive_args;
#define ATTN_ADDITIVE_ARGS_INIT ATTN_INIT(attn_additive_args)

/* weights = softmax over j of sum_c w[c] tanh(q[i,c] + k[j,c]);  out = weights v. Rows without keys
 * are zeros. Time: Tq Tk dk hyperbolic tangents, twice on the way back. */
ATTN_API attn_status attn_additive_forward(const attn_ctx *ctx, const attn_additive_args *args,
                                           attn_error *err);
ATTN_API attn_status attn_additive_backward(const attn_ctx *ctx, const attn_additive_args *args,
                                            attn_error *err);

typedef enum attn_gate {
    ATTN_GATE_SOFTMAX = 0, /* e^z[j] over the sum of the sequence's: a mean of its rows */
    ATTN_GATE_LOGISTIC     /* 1 / (1 + e^-z[j]): each row for itself */
} attn_gate;

/* Attention without queries: h weighted sums of the rows of each sequence. z is given, or linear in
 * x: then attn_gemm makes it, and attn_linear_backward takes dz back, with dx as `add`. */
typedef struct attn_gate_args {
    size_t struct_size;
    attn_gate gate;
    int64_t segments;      /* sequences; 0: one */
    const int64_t *starts; /* [segments + 1]; NULL for one */
    attn_view x;           /* [1, 1, T, n] */
    attn_view z;           /* [1, 1, T, h] */
    attn_view weights;     /* [1, 1, T, h]: written by forward, read by backward */
    attn_view out; /* [1, 1, segments h, n], likewise: row s h + g is gate g of sequence s */
    attn_view dout;
    attn_view dx, dz; /* either may be absent; dz may be z or weights */
} attn_gate_args;
#define ATTN_GATE_ARGS_INIT ATTN_INIT(attn_gate_args)

/* out[s, g] = sum_j weights[j, g] x[j], over the rows of s. A sequence without rows gives zeros. */
ATTN_API attn_status attn_gate_forward(const attn_ctx *ctx, const attn_gate_args *args,
                                       attn_error *err);
ATTN_API attn_status attn_gate_backward(const attn_ctx *ctx, const attn_gate_args *args,
                                        attn_error *err);

/* Multi-head attention between projections. What lies between them is an attn_forward call of the
 * caller's (masks, packed sequences, scale, sinks, dropout, statistics and weights of it included),
 * whose views q, k, v, out and lse are memory that this layer fills and its way back reads again:
 * q [1, h, Tq, dk], k [1, hk, Tk, dk], v [1, hk, Tk, dv] and out [1, h, Tq, dv] with heads side by
 * side in rows (attn_view_bshd), lse [1, h, Tq, 1]. */
typedef struct attn_multihead_args {
    size_t struct_size;
    const attn_forward_args *attention;
    attn_view x;      /* [1, 1, Tq, d] */
    attn_view memory; /* [1, 1, Tk, dm]: of keys and values; absent: x */
    attn_view wq, wk, wv,
        wo; /* [1, 1, h dk, d], [1, 1, hk dk, dm], [1, 1, hk dv, dm], [1, 1, do, h dv] */
    attn_view bq, bk, bv, bo; /* [1, 1, 1, ...], or absent */
    attn_view out;            /* [1, 1, Tq, do] */

    /* Backward. `gradients` is the call that takes attention back: its dout, dq, dk and dv are
     * memory, of the shapes of attention's out, q, k and v, and needed; the rest is as the caller
     * wants it. Its `forward` is not read. */
    const attn_backward_args *gradients;
    attn_view dout;
    attn_view dx, dmemory; /* overwritten; either may be absent. Without memory dx has all */
    attn_view dwq, dwk, dwv, dwo, dbq, dbk, dbv, dbo; /* added to, or absent */
} attn_multihead_args;
#define ATTN_MULTIHEAD_ARGS_INIT ATTN_INIT(attn_multihead_args)

/* out = Concat_h(Attn(x Wq^T + bq, m Wk^T + bk, m Wv^T + bv)) Wo^T + bo, m being memory or x. The
 * products allocate workspace and free it, attention too unless it has been given one. Errors:
 * those of attn_gemm, attn_forward and attn_backward too; outputs are then undefined. */
ATTN_API attn_status attn_multihead_forward(const attn_ctx *ctx, const attn_multihead_args *args,
                                            attn_error *err);
ATTN_API attn_status attn_multihead_backward(const attn_ctx *ctx, const attn_multihead_args *args,
                                             attn_error *err);

/* T5's bucket of a distance key - query: with B = buckets, halved if bidirectional (then + B for
 * keys after the query), a = |distance| (one way: 0 for keys after the query): a if a < B/2, else
 * min(B - 1, B/2 + ln(a / (B/2)) / ln(max_distance / (B/2)) * B/2). */
ATTN_API int64_t attn_relative_bucket(int64_t relative, int bidirectional, int64_t buckets,
                                      int64_t max_distance);

/* --- Passes --------------------------------------------------------------------------------- */

/* Sequences, packed one after the other without padding: the ids of sequence i are those from
 * starts[i] to starts[i + 1] - 1; starts[0] is 0, the last start is the number of tokens. A
 * sequence may be empty. Encoders read `source`, decoders `target` (see attn_start) or, with
 * queries, nothing of it: then each sequence has that many rows. What the model has no use for is
 * ignored and may be NULL. */
typedef struct attn_batch {
    size_t struct_size;
    int64_t segments; /* sequences, or pairs of them; at least 1 */
    const int32_t *source;
    const int64_t *source_starts;
    const int32_t *target;
    const int64_t *target_starts;
    /* The number of sequence 0 in what the batch is a part of. Dropout depends on the numbers of
     * sequences, so that micro-batches and ranks drop what one large batch would. */
    int64_t first_segment;
    /* Types of rows, if there are token_types: as many as there are ids (a decoder's shift does not
     * move them). NULL: 0 for all. */
    const int32_t *source_types, *target_types;
} attn_batch;
#define ATTN_BATCH_INIT ATTN_INIT(attn_batch)

/* What any batch of a run stays within. */
typedef struct attn_batch_limits {
    size_t struct_size;
    int64_t segments;
    int64_t source_tokens, target_tokens;   /* of a batch */
    int64_t longest_source, longest_target; /* of a sequence */
} attn_batch_limits;
#define ATTN_BATCH_LIMITS_INIT ATTN_INIT(attn_batch_limits)

enum {
    ATTN_PASS_BACKWARD = 1, /* keep what attn_model_backward needs */
    ATTN_PASS_DROPOUT = 2,  /* dropout as configured; otherwise none */
    /* With BACKWARD: keep the inputs of blocks only and compute their inside once more on the way
     * back. The same bits, less memory, about a third more time. */
    ATTN_PASS_RECOMPUTE = 4
};

/* Asks the forward pass for what one attention layer looks at: weights, statistics (attn.h), or
 * both. It costs what attn.h says; hidden states have the same bits with and without. Additive
 * scores give f32 or f64 weights and no statistics. This struct is frozen. */
typedef struct attn_look {
    int decoder; /* non-zero: a layer of the decoder, else of the encoder */
    int cross;   /* non-zero: of the decoder's attention to the encoder */
    int64_t layer, head;
    attn_view
        weights; /* [segments, n, longest queries, longest keys] of heads head .. head + n - 1,
                        * before dropout, zeros where there is nothing; any type that attn_forward
                        * writes; or absent */
    const attn_stats *stats; /* of all heads; or NULL */
} attn_look;

/* One step's forward and backward pass. The caller fills all but hidden and memory. */
typedef struct attn_pass {
    size_t struct_size;
    const attn_batch *batch; /* neither it nor its arrays may change before the backward pass */
    int flags;
    uint64_t seed; /* of dropout */
    void *arena;   /* 64-byte aligned, of attn_model_plan's size for limits that the batch is within
                    * (for exactly this batch: of its own numbers), and the same flags */
    size_t arena_size;
    const attn_look *looks; /* or NULL; each of another attention */
    size_t look_count;

    /* Made by attn_model_forward; views into the arena, [1, 1, T, d]. */
    attn_view hidden; /* of the decoder, or of an encoder alone, after the last norm */
    attn_view memory; /* of the encoder beside a decoder; else absent */
} attn_pass;
#define ATTN_PASS_INIT ATTN_INIT(attn_pass)

/* Bytes of arena that serve every batch within the limits. Errors: ATTN_E_ARGUMENT, ATTN_E_MEMORY
 * (the number does not fit). */
ATTN_API attn_status attn_model_plan(const attn_model *model, const attn_batch_limits *limits,
                                     int flags, size_t *bytes, attn_error *err);

/* Computes hidden states. Nothing is allocated, but by statistics and weights that are looked at.
 *
 * Bits: a row of hidden depends on its own sequence, its number and the seed alone; never on other
 * sequences, on threads, or (causal) on what follows in a target.
 * Errors: ATTN_E_ARGUMENT (ids, starts, arena, flags), ATTN_E_MEMORY, ATTN_E_CANCELLED. The arena
 * is undefined afterwards.
 * Threads: any number of passes at once over one model, each with its own arena. */
ATTN_API attn_status attn_model_forward(const attn_model *model, attn_pass *pass, attn_error *err);

/* Adds the derivative of the loss by every parameter to `gradients`, a block of the layout of the
 * weights, given that by hidden: dhidden [1, 1, T, d], adjacent columns, of the model's type. It
 * may be pass->hidden itself, written over. What the output matrix and its bias get from the loss
 * is theirs who compute logits. `pass` has been through attn_model_forward with ATTN_PASS_BACKWARD,
 * and the weights are what they were; a pass goes back once.
 *
 * Bits: gradients are sums over rows in the order of the batch; they depend on the whole batch, and
 * not on threads.
 * Errors: as attn_model_forward; gradients may then be partly added. */
ATTN_API attn_status attn_model_backward(const attn_model *model, attn_pass *pass,
                                         const attn_view *dhidden, void *gradients,
                                         attn_error *err);

#ifdef __cplusplus
}
#endif
#endif
