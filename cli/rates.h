/* rates.h: what this processor can do at best, for `attn bench` to measure against. */
#ifndef ATTN_CLI_RATES_H
#define ATTN_CLI_RATES_H

#include "include/attn/attn.h"

/* Multiply-adds of float32 on one core with the instructions of a kernel set that can run here, in
 * 10^9 operations a second (an addition and a multiplication count one each): the best of short
 * runs within about 30 ms. The operands stay in registers, so nothing else is in the way. For the
 * scalar set: what the compiler makes of plain C. */
double cli_peak_gflops(attn_kernel_set set);

/* Bytes that one core reads from memory, in 10^9 a second: the better of two sweeps over 256 MB in
 * large pages where the system has them, which are kept until cli_stream_release. 0 if there is no
 * memory. */
double cli_stream_gb_s(attn_kernel_set set);
void cli_stream_release(void);

#endif
