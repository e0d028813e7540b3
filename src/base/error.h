/* error.h: filling attn_error. */
#ifndef ATTN_BASE_ERROR_H
#define ATTN_BASE_ERROR_H

#include "include/attn/attn.h"
#include "src/base/compiler.h"

/* Writes status, offset and a formatted line into *err (which may be NULL) and returns status, so
 * that a failing function can end with `return attn__fail(...)`. Bytes outside printable ASCII
 * become '?', so that names from files cannot drive a terminal. */
attn_status attn__fail(attn_error *err, attn_status status, uint64_t offset, const char *format,
                       ...) ATTN__PRINTF(4, 5);

/* ATTN_E_IO, "<what>: <the system's words for error number `code`>". */
attn_status attn__fail_system(attn_error *err, uint64_t offset, const char *what, int code);

/* The failure `inner` again, with the path (of a long one its end) in front of the text. */
attn_status attn__fail_path(attn_error *err, const char *path, const attn_error *inner);

/* Returns from the calling function with the status of a call that failed. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        attn_status status_ = (call);                                                              \
        if (status_ != ATTN_OK)                                                                    \
            return status_;                                                                        \
    } while (0)

#endif
