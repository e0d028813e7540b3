/* copies.h: a model's weight matrices, packed for products, in a type of one's choice. */
#ifndef ATTN_NN_COPIES_H
#define ATTN_NN_COPIES_H

#include "src/nn/pass.h"

/* Of all matrices that linear layers and the output read. `factor`: of the output's i8 scales. */
attn_status attn__copies_make(attn__copies *c, const attn_model *model, attn_type type,
                              double factor, attn_error *err);
void attn__copies_free(attn__copies *c, const attn_model *model);

#endif
