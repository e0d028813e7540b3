/* sample_call.h: one small valid call with every part optional, to be changed field by field: the
 * errors of test_args.c, the edges and the fuzz of test_args_fuzz.c. */
#ifndef ATTN_TESTS_SAMPLE_CALL_H
#define ATTN_TESTS_SAMPLE_CALL_H

#include "tests/expect.h"

#include <string.h>

enum { NB = 2, NH = 4, NHK = 2, NQ = 5, NK = 70, ND = 8, NSEG = 3 };
enum { REGION = 1 << 17, SEQ = 8 };

enum {
    SCALE = 1,
    WINDOW = 2,
    OFFSETS = 4,
    LENGTHS = 8,
    PACKED = 16,
    KEEP = 32,
    BIAS = 64,
    ALIBI = 128,
    BLOCKS = 256,
    SINK = 512,
    LSE = 1024,
    WEIGHTS = 2048,
    PARTIAL = 4096,
    START = 8192,
    WORK = 16384,
    ALL_F64 = 32768,
    EVERY = 65536
};

/* Where pointers of the tables point. */
enum place {
    NOWHERE,
    ODD,
    IN_Q,
    IN_Q_LATER,
    IN_K,
    IN_V,
    IN_KEEP,
    IN_BIAS,
    IN_OUT,
    IN_LSE,
    WORK_ODD
};

enum {
    OK = 1 << ATTN_OK,
    ARG = 1 << ATTN_E_ARGUMENT,
    SHAPE = 1 << ATTN_E_SHAPE,
    MEM = 1 << ATTN_E_MEMORY,
    BAD = ARG | SHAPE
};

/* A call and everything it points to, so that one offset reaches any field. */
typedef struct call {
    attn_forward_args a;
    uint64_t tail[8]; /* what a newer caller's struct would hold after ours */
    attn_mask m;
    uint64_t mask_tail[8];
    attn_partial partial, start;
    int64_t q_offsets[SEQ], k_offsets[SEQ], k_start[SEQ], k_count[SEQ], q_count[SEQ];
    int64_t q_starts[SEQ], k_starts[SEQ];
    int64_t block_start[SEQ], block_index[SEQ];
} call;

typedef struct call_memory {
    _Alignas(64) unsigned char in[REGION];
    _Alignas(64) unsigned char out[REGION];
    _Alignas(64) unsigned char work[1 << 23];
    unsigned char was_in[REGION];
    unsigned char was_out[REGION];
    size_t in_used, out_used;
} call_memory;

extern call_memory call_mem;

/* A valid call with the options of `with`, over call_mem.in and call_mem.out. */
void call_make(call *c, unsigned with);

/* Values into call_mem.in, poison into call_mem.out; copies into was_in and was_out. */
void call_fill(void);

/* The next piece of call_mem.in or call_mem.out. */
attn_view call_in(attn_type type, int64_t b, int64_t h, int64_t n, int64_t d);
attn_view call_out(attn_type type, int64_t b, int64_t h, int64_t n, int64_t d);

typedef attn_view (*view_maker)(attn_type, int64_t, int64_t, int64_t, int64_t);
attn_partial call_record(view_maker view, attn_type type, int64_t b);

/* --- One changed field ---------------------------------------------------------------------- */

enum kind { AS_IS, AS_I64, AS_INT, AS_SIZE, AS_F64, AS_PLACE };

typedef struct change {
    const char *name;
    enum kind kind;
    size_t at;
    int64_t i;
    double f;
    unsigned with;
    unsigned want;
    const char *names; /* what the error text must mention */
} change;

#define I64(field, value) #field " = " #value, AS_I64, offsetof(call, field), value, 0
#define INT(field, value) #field " = " #value, AS_INT, offsetof(call, field), value, 0
#define SIZE(field, value) #field " = " #value, AS_SIZE, offsetof(call, field), value, 0
#define F64(field, value) #field " = " #value, AS_F64, offsetof(call, field), 0, value
#define PTR(field, place) #field " -> " #place, AS_PLACE, offsetof(call, field), place, 0

/* Writes the change into the call. */
void call_apply(call *c, const change *x);

/* For each row: makes a call with `with`, changes it, runs plan and call, and checks status, text
 * and what was written. */
void call_run_changes(const attn_ctx *ctx, const change *list, size_t n);
#define RUN(list) call_run_changes(ctx, list, sizeof list / sizeof *list)

/* Gives the call a workspace of exactly the planned size. */
void call_give_workspace(const attn_ctx *ctx, call *c, const change *x);

/* err describes st in one plain line that contains `names` (NULL: anything). */
void call_check_error(const attn_error *err, attn_status st, const char *names, const char *what);

#endif
