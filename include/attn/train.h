/* train.h: what makes a Transformer learn: the loss, optimisers, schedules, checkpoints.
 *
 * Weights, gradients and the optimiser's moments are flat blocks of numbers with one layout; what
 * works on them knows nothing of layers. Everything is f32, or f64 for those who check f32.
 *
 * The rules of attn.h hold here: borrowed views, sized argument structs, nothing written on failure
 * unless said, no printing, and results whose bits do not depend on threads.
 *
 * Sources: Vaswani et al., "Attention Is All You Need" (2017), section 5; Szegedy et al. (2016) for
 * label smoothing; Kingma and Ba (2015), Loshchilov and Hutter (2019) for Adam and AdamW.
 */
#ifndef ATTN_TRAIN_H
#define ATTN_TRAIN_H

#include "io.h"
#include "nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Loss ------------------------------------------------------------------------------------
 *
 *     x    = scale * hidden W^T + bias         a row of V logits for each token
 *     p    = softmax(x)
 *     nll  = -ln p[target]
 *     loss = -sum_j q[j] ln p[j]               q: the smoothed distribution
 *     dx   = factor (p - q)
 *     dhidden = scale * dx W      dW += scale * dx^T hidden      dbias += sum of dx
 */

typedef enum attn_smoothing {
    ATTN_SMOOTH_OTHERS =
        0,          /* q = 1 - e of the target, e / (V - 1) of every other (the paper's code,
                             * fairseq) */
    ATTN_SMOOTH_MIX /* 1 - e + e / V and e / V: (1 - e) nll + e mean(-ln p) (PyTorch) */
} attn_smoothing;

typedef struct attn_cross_entropy_args {
    size_t struct_size;
    attn_view hidden;       /* [1, 1, T, d] f32 or f64, as all views here */
    attn_view weight;       /* W [1, 1, V, d] */
    attn_view bias;         /* [1, 1, 1, V], or absent (0) */
    const int32_t *targets; /* [T]; a negative one: the token adds nothing, its dhidden is 0 */
    double scale;           /* 0: 1 */
    attn_smoothing smoothing;
    double epsilon; /* e, 0 <= e < 1; above 0 ATTN_SMOOTH_OTHERS wants V >= 2 */
    double factor;  /* of gradients: usually 1 / tokens of the whole step */

    /* Gradients, all absent: only the loss is computed. */
    attn_view dhidden; /* [1, 1, T, d], overwritten; may be exactly hidden's memory; or absent */
    attn_view dweight; /* [1, 1, V, d], added to; or absent */
    attn_view dbias;   /* [1, 1, 1, V] with adjacent columns, added to; or absent */

    unsigned char *hits; /* [T], or NULL: 1 where `right` counts the token, else 0 */

    void *workspace; /* 64-byte aligned, attn_cross_entropy_plan's size; NULL: allocated and freed
                      * by the call */
    size_t workspace_size;
} attn_cross_entropy_args;
#define ATTN_CROSS_ENTROPY_ARGS_INIT ATTN_INIT(attn_cross_entropy_args)

/* Sums over tokens. `right` counts the tokens whose target is what greedy decoding would take: the
 * largest logit, of equal ones the first. This struct is frozen. */
typedef struct attn_loss {
    double loss, nll;
    int64_t tokens, right;
} attn_loss;

/* Loss of T tokens and, if asked for, its gradients. Logits exist for a chunk of tokens at a time,
 * at most 64 MB (128 MB f64) of them, or 48 tokens.
 *
 * Bits: the loss and dhidden of a token depend on its own row and W; dW and dbias are sums in the
 * order of tokens, chunk by chunk, where V decides the chunks. Not on threads, not on strides.
 * Numbers: softmax in the type of the views with a maximum subtracted, sums of blocks of 512
 * columns and the loss in double. NaN and infinite logits show in the loss.
 * Errors: ATTN_E_ARGUMENT (type, epsilon, factor, a target that is not below V), ATTN_E_SHAPE,
 * ATTN_E_MEMORY; ATTN_E_CANCELLED by the context's progress callback, which matrix products call:
 * gradients are then partly added.
 * Threads: any number of calls at once on one context, with different outputs and workspaces. */
ATTN_API attn_status attn_cross_entropy(const attn_ctx *ctx, const attn_cross_entropy_args *args,
                                        attn_loss *loss, attn_error *err);

/* Bytes of workspace that such a call wants; fails when attn_cross_entropy would. */
ATTN_API attn_status attn_cross_entropy_plan(const attn_ctx *ctx,
                                             const attn_cross_entropy_args *args,
                                             size_t *workspace_size, attn_error *err);

/* The least that the smoothed loss of a token can be: the entropy of q. 0 if e = 0 or V < 2. */
ATTN_API double attn_smoothing_floor(attn_smoothing smoothing, double epsilon, int64_t v);

/* --- Optimiser -------------------------------------------------------------------------------
 *
 *     g  = factor * gradient, times max_norm / |g| if |g| is larger (over all elements)
 *     m  = beta1 m + (1 - beta1) g                     m^ = m / (1 - beta1^step)
 *     v  = beta2 v + (1 - beta2) g^2                   v^ = v / (1 - beta2^step)
 *     w  = (1 - rate * decay) w - rate m^ / (sqrt(v^) + epsilon)
 */

/* Elements offset .. offset + count - 1 of a block. This struct is frozen. */
typedef struct attn_span {
    int64_t offset, count;
} attn_span;

typedef struct attn_adam_args {
    size_t struct_size;
    attn_type type; /* of all four blocks: f32 or f64 */
    int64_t count;  /* elements of each */
    void *weights;  /* w, m, v: changed in place; no overlap. m and v begin as zeros */
    void *gradients;
    void *m, *v;
    int clear; /* non-zero: gradients are left as zeros */

    int64_t step; /* from 1 */
    double rate;
    int has_betas; /* non-zero: beta1 and beta2 are given; else 0.9 and 0.98 */
    double beta1, beta2;
    double epsilon;  /* 0: 1e-9 */
    double decay;    /* of weights, decoupled (AdamW); 0: none (Adam) */
    double factor;   /* 0: 1 */
    double max_norm; /* 0: no clipping */

    const attn_span *kept; /* what does not decay, ascending, apart from one another */
    size_t kept_count;
} attn_adam_args;
#define ATTN_ADAM_ARGS_INIT ATTN_INIT(attn_adam_args)

/* One step. *norm (may be NULL) becomes |factor * gradient|, summed in double in a fixed order; it
 * is computed if it is asked for or needed, and must then be finite. Elements whose gradient and
 * moments are 0 move by decay alone. Nothing is allocated.
 * Errors: ATTN_E_ARGUMENT (also for a norm that is not finite: nothing has been written). */
ATTN_API attn_status attn_adam_step(const attn_ctx *ctx, const attn_adam_args *args, double *norm,
                                    attn_error *err);

/* Rates by step, t = 1, 2, ...; rises are linear, w = warmup. This struct is frozen. */
typedef enum attn_schedule_kind {
    ATTN_SCHEDULE_CONSTANT = 0, /* rate * min(1, t / w) */
    ATTN_SCHEDULE_NOAM,         /* rate * d^-0.5 * min(t^-0.5, t * w^-1.5); the paper: rate 1 */
    ATTN_SCHEDULE_INVERSE_SQRT, /* rate * min(t / w, sqrt(w / t)): fairseq's, from 0 */
    ATTN_SCHEDULE_COSINE        /* rises to rate, then half a cosine down to `last` at t = steps */
} attn_schedule_kind;

typedef struct attn_schedule {
    attn_schedule_kind kind;
    double rate;
    int64_t warmup; /* w; 0: no rise (INVERSE_SQRT and NOAM: as 1) */
    int64_t d;      /* NOAM: model width */
    int64_t steps;  /* COSINE: the whole run */
    double last;    /* COSINE */
} attn_schedule;

/* Errors: ATTN_E_ARGUMENT. */
ATTN_API attn_status attn_schedule_rate(const attn_schedule *schedule, int64_t step, double *rate,
                                        attn_error *err);

/* average += rate * (weights - average): an exponential average forgets by 1 - rate. */
ATTN_API attn_status attn_average_blend(const attn_ctx *ctx, attn_type type, int64_t count,
                                        void *average, const void *weights, double rate,
                                        attn_error *err);

/* out = the plain mean of n >= 1 blocks, each element summed in double in their order. `out` may be
 * one of them. */
ATTN_API attn_status attn_average_blocks(const attn_ctx *ctx, attn_type type, int64_t count,
                                         const void *const *blocks, size_t n, void *out,
                                         attn_error *err);

/* --- Checkpoints -----------------------------------------------------------------------------
 *
 * A run keeps its checkpoints in a folder, each in a folder of its own:
 *
 *     FOLDER/step-000000001000/weights.safetensors     and other parts
 *     FOLDER/step-000000001000/manifest.safetensors    sizes and CRC-32 of the parts, the caller's
 *                                                      pairs, and a CRC-32 of all that; no tensors
 *
 * Every file is written beside its name, synced and renamed, the manifest last: a folder without a
 * manifest is no checkpoint. A step that is saved again goes to step-000000001000.1, .2, ...; no
 * file of a checkpoint is ever changed. So whatever happens while one is written (a kill, a full
 * disk, power lost), the former ones stay whole.
 */

/* A file of a checkpoint: `name` is a word of letters, digits, '-' and '_', not "manifest". Tensors
 * and metadata as attn_file_write takes them. */
typedef struct attn_checkpoint_part {
    const char *name;
    const attn_tensor *tensors;
    size_t count;
    const char *const *keys, *const *values;
    size_t meta_count;
} attn_checkpoint_part;

typedef struct attn_checkpoint_save_args {
    size_t struct_size;
    const char *folder; /* made if it is missing (its parent must be there) */
    int64_t step;       /* 0 or more */
    const attn_checkpoint_part *parts;
    size_t part_count;
    const char *const *keys, *const *values; /* the state of the run, as text */
    size_t pair_count;
    int64_t keep; /* newest checkpoints that stay, this one included; 0: all */
} attn_checkpoint_save_args;
#define ATTN_CHECKPOINT_SAVE_ARGS_INIT ATTN_INIT(attn_checkpoint_save_args)

/* Saves a checkpoint; when it returns ATTN_OK, the checkpoint is on the disk. Then older ones
 * beyond `keep`, and remains of saves that did not end, are removed; what cannot be is told to
 * the log of the context. On failure earlier checkpoints are as they were, and the files of this
 * one are removed as far as possible. Errors: ATTN_E_ARGUMENT, ATTN_E_IO, ATTN_E_MEMORY. */
ATTN_API attn_status attn_checkpoint_save(const attn_ctx *ctx,
                                          const attn_checkpoint_save_args *args, attn_error *err);

/* An open checkpoint: its parts are files of io.h. */
typedef struct attn_checkpoint attn_checkpoint;

/* Opens the newest whole checkpoint of a folder, or (step >= 0) the newest of that step. All
 * bytes are read and held to their checksums; one that is damaged is passed over with a line in
 * the log of the context. On failure *out is NULL. Errors: ATTN_E_IO if there is none,
 * ATTN_E_FORMAT if there are but none is whole (the text tells what is wrong with the newest),
 * ATTN_E_MEMORY, ATTN_E_ARGUMENT. */
ATTN_API attn_status attn_checkpoint_open(const attn_ctx *ctx, const char *folder, int64_t step,
                                          attn_checkpoint **out, attn_error *err);
ATTN_API void attn_checkpoint_close(attn_checkpoint *checkpoint);

ATTN_API int64_t attn_checkpoint_step(const attn_checkpoint *checkpoint);
/* The folder of the checkpoint itself. */
ATTN_API const char *attn_checkpoint_path(const attn_checkpoint *checkpoint);
/* NULL if there is no such part, no such key. */
ATTN_API const attn_file *attn_checkpoint_find(const attn_checkpoint *checkpoint, const char *part);
ATTN_API const char *attn_checkpoint_value(const attn_checkpoint *checkpoint, const char *key);

/* Steps of the checkpoints of a folder that have a manifest (whole or not), ascending, at most
 * `room` of the newest, each once; *count is how many there are. */
ATTN_API attn_status attn_checkpoint_list(const attn_ctx *ctx, const char *folder, int64_t *steps,
                                          size_t room, size_t *count, attn_error *err);

/* --- Trainer ---------------------------------------------------------------------------------
 *
 * Steps of training a model with an output matrix on sequences of token ids. A step takes a batch:
 * as many sequences as fit into `batch_tokens`, in an order drawn anew for each epoch; goes forward
 * and backward over it in parts of `part_tokens`; and moves the weights by Adam. Its loss is the
 * mean over all target tokens of the batch, however it is parted.
 *
 * Everything that is drawn is a function of the seed and of how many steps were taken. So a run
 * that is restored from a checkpoint goes on with the bits of one that was never interrupted, and
 * the number of threads changes nothing.
 */

/* Sequences one after the other: number i has ids[starts[i]] .. ids[starts[i + 1] - 1]. Targets
 * are what the model is to say, its end token included; with ATTN_START_NONE they are also what
 * it sees, and each token is held to the next. A model without a decoder or without an encoder
 * has no source (both NULL). This struct is frozen. */
typedef struct attn_corpus {
    int64_t count; /* sequences */
    const int32_t *source;
    const int64_t *source_starts; /* [count + 1] from 0 on, as target_starts */
    const int32_t *target;
    const int64_t *target_starts;
} attn_corpus;

typedef struct attn_trainer_options {
    size_t struct_size;
    attn_corpus corpus; /* borrowed until the trainer is destroyed */
    uint64_t seed;      /* of order and dropout */
    int64_t
        batch_tokens;    /* a step's, of source and of target: 4096. A longer sequence goes alone */
    int64_t part_tokens; /* at a time, likewise; decides memory: batch_tokens */
    int recompute;       /* non-zero: less memory, a third more time, the same bits */
    int64_t bucket;      /* sequences whose lengths, divided by this, agree go together; 0: any */

    attn_schedule schedule;
    attn_smoothing smoothing;
    double epsilon; /* of smoothing */
    int has_betas;  /* as attn_adam_args has them */
    double beta1, beta2, adam_epsilon, decay, max_norm;
    double average; /* an average of weights that keeps so much of itself each step; 0: none */
} attn_trainer_options;
#define ATTN_TRAINER_OPTIONS_INIT ATTN_INIT(attn_trainer_options)

typedef struct attn_trainer attn_trainer;

/* Makes a trainer at step 0, with the memory that all its steps take: three or four blocks of the
 * model's size, and activations. The model must outlive it; its weights change step by step, and
 * nothing else may use it during one. On failure *out is NULL. Errors: ATTN_E_ARGUMENT (numbers out
 * of range, ids that the model does not have, a corpus or a model that does not fit),
 * ATTN_E_MEMORY. */
ATTN_API attn_status attn_trainer_create(attn_model *model, const attn_trainer_options *options,
                                         attn_trainer **out, attn_error *err);
ATTN_API void attn_trainer_destroy(attn_trainer *trainer);

/* What a step did. This struct is frozen. */
typedef struct attn_step {
    int64_t step;   /* from 1 */
    int64_t epoch;  /* from 0 */
    attn_loss sums; /* over the batch, with dropout */
    int64_t tokens; /* source and target */
    double norm;    /* of the gradient of the mean loss, before clipping */
    double rate;
} attn_step;

/* Takes a step. `report` may be NULL. Errors: ATTN_E_ARGUMENT when the gradient is not finite (the
 * weights are then those of the step before), ATTN_E_CANCELLED by the context's progress callback.
 * After a failure only evaluating, restoring and destroying are allowed. */
ATTN_API attn_status attn_trainer_step(attn_trainer *trainer, attn_step *report, attn_error *err);

/* Steps taken; epochs are over when all sequences were in a batch. */
ATTN_API int64_t attn_trainer_steps(const attn_trainer *trainer);
ATTN_API int64_t attn_trainer_epochs(const attn_trainer *trainer);

/* Loss over a corpus without dropout, and how many of its sequences are right from beginning to
 * end: greedy decoding would say exactly the target. This struct is frozen. */
typedef struct attn_evaluation {
    attn_loss sums;
    int64_t sequences, exact;
} attn_evaluation;

/* With `averaged` of the average of weights, which must then exist. The model is as before. */
ATTN_API attn_status attn_trainer_evaluate(attn_trainer *trainer, const attn_corpus *corpus,
                                           int averaged, attn_evaluation *out, attn_error *err);

/* The average, a block with the layout of the weights; NULL if there is none. */
ATTN_API const void *attn_trainer_average(const attn_trainer *trainer);

/* Saves a checkpoint at the present step: parts "weights", "adam_m", "adam_v" and, if there is
 * an average, "average", each with the model's tensors by name; and the caller's pairs, whose
 * keys must not begin with "attn." or "trainer.". The rest is attn_checkpoint_save's. */
ATTN_API attn_status attn_trainer_save(attn_trainer *trainer, const char *folder, int64_t keep,
                                       const char *const *keys, const char *const *values,
                                       size_t pair_count, attn_error *err);

/* Takes over weights, moments, average and place from a checkpoint of a run with the same model,
 * corpus, seed, batch and bucket. Errors: ATTN_E_FORMAT if it is of another run (the text says in
 * what); the trainer is then as it was. */
ATTN_API attn_status attn_trainer_restore(attn_trainer *trainer, const attn_checkpoint *checkpoint,
                                          attn_error *err);

#ifdef __cplusplus
}
#endif
#endif
