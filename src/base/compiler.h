/* compiler.h: the compiler extensions the library uses, under names of its own. */
#ifndef ATTN_BASE_COMPILER_H
#define ATTN_BASE_COMPILER_H

#if defined(__clang__)
#define ATTN__UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define ATTN__UNROLL _Pragma("GCC unroll 16")
#else
#define ATTN__UNROLL
#endif

#if defined(__GNUC__)
#define ATTN__INLINE static inline __attribute__((always_inline, unused))
#define ATTN__NOINLINE __attribute__((noinline))
#define ATTN__PRINTF(f, a) __attribute__((format(printf, f, a)))
#define ATTN__ALIGNED(n) __attribute__((aligned(n)))
/* Asks for the line at an address, to the L2 cache; any address will do. */
#define ATTN__PREFETCH(address) __builtin_prefetch((const void *)(address), 0, 2)
/* To the L1 cache. */
#define ATTN__PREFETCH_NEAR(address) __builtin_prefetch((const void *)(address), 0, 3)
#define ATTN__PREFETCH_WRITE(address) __builtin_prefetch((const void *)(address), 1, 3)
#else
#define ATTN__INLINE static inline
#define ATTN__NOINLINE
#define ATTN__PRINTF(f, a)
#define ATTN__ALIGNED(n) _Alignas(n)
#define ATTN__PREFETCH(address) ((void)(address))
#define ATTN__PREFETCH_NEAR(address) ((void)(address))
#define ATTN__PREFETCH_WRITE(address) ((void)(address))
#endif

#endif
