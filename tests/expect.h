/* expect.h: assertions that say what was being tried, over cmocka's. */
#ifndef ATTN_TESTS_EXPECT_H
#define ATTN_TESTS_EXPECT_H

#include "tests/support.h"

#include <stdio.h>

static inline void check__failed(const char *file, int line, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print_error("%s\n", text);
    _fail(file, line);
}

/* Fails the test unless `condition` holds; the rest is printf's: which case it was. */
#define CHECK_MSG(condition, ...)                                                                  \
    ((condition) ? (void)0 : check__failed(__FILE__, __LINE__, __VA_ARGS__))
#define CHECK(condition) CHECK_MSG(condition, "not true: %s", #condition)

#endif
