/* hostile_arrays.c: .npy and .safetensors files that break one rule each. */
#include "include/attn/io.h"
#include "tests/expect.h"
#include "tests/hostile.h"

#include <string.h>

void hostile_add(hostile_list *list, const char *name, attn_format format, blob file,
                 const char *says)
{
    CHECK(list->count < sizeof list->items / sizeof *list->items);
    list->items[list->count++] = (hostile){name, format, file, says};
}

/* --- npy ------------------------------------------------------------------------------------ */

/* Header texts, as they are, with 24 bytes of data: what a true one would need. */
static const struct {
    const char *name, *header, *says;
} npy_headers[] = {
#define D "{'descr': '<f4', 'fortran_order': False, 'shape': "
    {"npy_no_header", "", "start with '{'"},
    {"npy_only_newline", "\n", "start with '{'"},
    {"npy_no_newline", D "(2, 3), }", "newline"},
    {"npy_two_newlines", D "(2, 3), }\n\n", "newline"},
    {"npy_text_after_newline", D "(2, 3), }\n#", "newline"},
    {"npy_text_after_dictionary", D "(2, 3), } 1\n", "newline"},
    {"npy_comment", D "(2, 3), } # ok\n", "newline"},
    {"npy_leading_blank", " " D "(2, 3), }\n", "start with '{'"},
    {"npy_tab", "{'descr':\t'<f4', 'fortran_order': False, 'shape': (2, 3), }\n", "descr"},
    {"npy_dictionary_left_open", D "(2, 3), \n", "expected a key"},
    {"npy_two_commas", D "(2, 3),, }\n", "expected a key"},
    {"npy_comma_first", "{, 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}\n",
     "expected a key"},
    {"npy_no_comma_between_keys", "{'descr': '<f4' 'fortran_order': False, 'shape': (2, 3)}\n",
     "expected a key"},
    {"npy_no_colon", "{'descr' '<f4', 'fortran_order': False, 'shape': (2, 3)}\n", "':'"},
    {"npy_empty_dictionary", "{}\n", "each once"},
    {"npy_no_shape", "{'descr': '<f4', 'fortran_order': False}\n", "each once"},
    {"npy_no_order", "{'descr': '<f4', 'shape': (2, 3)}\n", "each once"},
    {"npy_no_descr", "{'fortran_order': False, 'shape': (2, 3)}\n", "each once"},
    {"npy_second_shape", D "(2, 3), 'shape': (2, 3)}\n", "each once"},
    {"npy_second_descr", D "(2, 3), 'descr': '<f4'}\n", "each once"},
    {"npy_unknown_key", D "(2, 3), 'x': 1}\n", "each once"},
    {"npy_key_of_other_case", "{'Descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}\n",
     "each once"},
    {"npy_long_key", D "(2, 3), 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx': 1}\n", "expected a key"},
    {"npy_escaped_key", "{'\\x64escr': '<f4', 'fortran_order': False, 'shape': (2, 3)}\n",
     "expected a key"},
    {"npy_key_without_quotes", "{descr: '<f4', 'fortran_order': False, 'shape': (2, 3)}\n",
     "expected a key"},
    {"npy_quotes_that_differ", "{'descr\": '<f4', 'fortran_order': False, 'shape': (2, 3)}\n",
     "each once"},
    {"npy_key_not_ascii", "{'d\xc3\xa9scr': '<f4', 'fortran_order': False, 'shape': (2, 3)}\n",
     "expected a key"},
    {"npy_bytes_key", "{b'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}\n",
     "expected a key"},
    {"npy_order_number", "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}\n",
     "True or False"},
    {"npy_order_lower_case", "{'descr': '<f4', 'fortran_order': false, 'shape': (2, 3)}\n",
     "True or False"},
    {"npy_order_text", "{'descr': '<f4', 'fortran_order': 'False', 'shape': (2, 3)}\n",
     "True or False"},
    {"npy_shape_list", D "[2, 3], }\n", "tuple"},
    {"npy_shape_number", D "6, }\n", "tuple"},
    {"npy_shape_without_comma", D "(6), }\n", "comma"},
    {"npy_shape_left_open", D "(2, 3\n", "tuple"},
    {"npy_shape_two_commas", D "(2,, 3), }\n", "plain decimal"},
    {"npy_shape_only_comma", D "(,), }\n", "plain decimal"},
    {"npy_shape_negative", D "(-2, 3), }\n", "plain decimal"},
    {"npy_shape_plus", D "(+2, 3), }\n", "plain decimal"},
    {"npy_shape_float", D "(2.0, 3), }\n", "plain decimal"},
    {"npy_shape_exponent", D "(2e0, 3), }\n", "plain decimal"},
    {"npy_shape_hex", D "(0x2, 3), }\n", "plain decimal"},
    {"npy_shape_octal", D "(02, 3), }\n", "leading zero"},
    {"npy_shape_zero_twice", D "(00, 3), }\n", "leading zero"},
    {"npy_shape_underscore", D "(2_0, 3), }\n", "plain decimal"},
    {"npy_shape_true", D "(True, 6), }\n", "plain decimal"},
    {"npy_shape_none", D "None, }\n", "tuple"},
    {"npy_shape_long", D "(2L, 3), }\n", "plain decimal"},
    {"npy_shape_grouped", D "(2'000, 3), }\n", "plain decimal"},
    {"npy_shape_sum", D "(1+1, 3), }\n", "plain decimal"},
    {"npy_shape_nested", D "((2, 3),), }\n", "plain decimal"},
    {"npy_shape_full_width_digit", D "(\xef\xbc\x92, 3), }\n", "plain decimal"},
    {"npy_shape_2_48_plus_1", D "(281474976710657,), }\n", "2^48"},
    {"npy_shape_2_63", D "(9223372036854775808,), }\n", "2^48"},
    {"npy_shape_2_64_plus_6", D "(18446744073709551622,), }\n", "2^48"},
    {"npy_shape_100_digits", D "(999999999999999999999999999999999999999999999999999999999,), }\n",
     "2^48"},
    {"npy_nine_dimensions", D "(1, 1, 1, 1, 1, 1, 1, 2, 3), }\n", "8 dimensions"},
    {"npy_product_wraps_to_0", D "(281474976710656, 281474976710656), }\n",
     "larger than any memory"},
    {"npy_product_wraps_to_24", D "(4294967296, 4294967296, 6), }\n", "larger than any memory"},
    {"npy_product_wraps_by_element", D "(281474976710656, 16384), }\n", "larger than any memory"},
    {"npy_product_past_int64", D "(281474976710656, 8192), }\n", "larger than any memory"},
    {"npy_exabyte", D "(281474976710656, 4096), }\n", "the file has 24"},
    {"npy_data_one_element_short", D "(7,), }\n", "takes 28 bytes, the file has 24"},
    {"npy_data_one_element_long", D "(5,), }\n", "4 bytes follow"},
    {"npy_zero_and_data", D "(0, 3), }\n", "24 bytes follow"},
    {"npy_zero_times_huge", D "(0, 281474976710656, 281474976710656), }\n", "24 bytes follow"},
    {"npy_huge_times_zero", D "(281474976710656, 281474976710656, 0), }\n", "24 bytes follow"},
#undef D
};

static const struct {
    const char *name, *descr, *says;
} npy_descrs[] = {
    {"npy_pickled_objects", "'|O'", "Python objects"},
    {"npy_pickled_objects_without_order", "'O'", "Python objects"},
    {"npy_structured", "[('a', '<f4')]", "structured"},
    {"npy_structured_objects", "[('a', '|O')]", "structured"},
    {"npy_sub_array", "('<f4', (2,))", "short string"},
    {"npy_big_endian_f4", "'>f4'", "big-endian"},
    {"npy_big_endian_i8", "'>i8'", "big-endian"},
    {"npy_native_order", "'=f4'", "not read"},
    {"npy_no_order_but_wide", "'|f4'", "not read"},
    {"npy_no_order_mark", "'f4'", "not read"},
    {"npy_big_endian_single", "'>u1'", "not read"},
    {"npy_void_of_zero_bytes", "'|V0'", "not read"},
    {"npy_void", "'|V4'", "not read"},
    {"npy_bytes", "'|S4'", "not read"},
    {"npy_text", "'<U1'", "not read"},
    {"npy_complex", "'<c8'", "not read"},
    {"npy_long_double", "'<f16'", "not read"},
    {"npy_quarter", "'<f1'", "not read"},
    {"npy_bool_of_two_bytes", "'<b2'", "not read"},
    {"npy_int_of_three_bytes", "'<i3'", "not read"},
    {"npy_datetime", "'<M8[D]'", "not read"},
    {"npy_empty_descr", "''", "not read"},
    {"npy_descr_only_order", "'<'", "not read"},
    {"npy_descr_blank_inside", "'<f 4'", "not read"},
    {"npy_descr_4_gb_wide", "'<f4294967300'", "not read"},
    {"npy_descr_long", "'<fffffffffffffffffffffffffffffffffff4'", "short string"},
    {"npy_descr_number", "4", "short string"},
    {"npy_descr_left_open", "'<f4", "not read"},
    {"npy_descr_newline", "'<f4\n'", "short string"},
    {"npy_descr_escape", "'<f\\x34'", "short string"},
    {"npy_descr_not_ascii", "'<f\xef\xbc\x94'", "short string"},
    {"npy_descr_two_strings", "'<f' '4'", "not read"},
};

/* The first bytes of a file, nothing after them. */
static const struct {
    const char *name, *bytes;
    size_t size;
    const char *says;
} npy_starts[] = {
    {"npy_other_mark", "\x93NUMPX\1\0\2\0{}", 12, "mark"},
    {"npy_mark_swapped", "YPMUN\x93\1\0\2\0{}", 12, "mark"},
    {"npy_version_0", "\x93NUMPY\0\0\2\0{}", 12, "version 0.0"},
    {"npy_version_1_1", "\x93NUMPY\1\1\2\0{}", 12, "version 1.1"},
    {"npy_version_4", "\x93NUMPY\4\0\2\0\0\0{}", 14, "version 4.0"},
    {"npy_version_255", "\x93NUMPY\xff\xff\2\0\0\0{}", 14, "version 255.255"},
    {"npy_version_swapped", "\x93NUMPY\0\1\2\0{}", 12, "version 0.1"},
    {"npy_length_past_end", "\x93NUMPY\1\0\xff\xff{}", 12, "past the end"},
    {"npy_length_one_past_end", "\x93NUMPY\1\0\3\0{}", 12, "past the end"},
    {"npy_length_4_gb", "\x93NUMPY\2\0\xff\xff\xff\xff", 12, "limit is 65536"},
    {"npy_length_2_31", "\x93NUMPY\2\0\0\0\0\x80", 12, "limit is 65536"},
    {"npy_length_big_endian", "\x93NUMPY\2\0\0\0\0\2{}", 14, "limit is 65536"},
    {"npy_length_0", "\x93NUMPY\1\0\0\0", 10, "start with '{'"},
    {"npy_nul_header", "\x93NUMPY\1\0\4\0\0\0\0\0", 14, "start with '{'"},
};

/* A sound version 2.0 header, blown up to `size` with blanks. */
static blob padded_header(arena *a, size_t size)
{
    static const char text[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (), }";
    blob b = blob_new(a);

    blob_put(&b, "\x93NUMPY\2\0", 8);
    blob_le(&b, size, 4);
    blob_text(&b, text);
    blob_fill(&b, ' ', size - (sizeof text - 1) - 1);
    blob_text(&b, "\n\1");
    return b;
}

void hostile_npy(hostile_list *list)
{
    hostile_add(list, "npy_header_65536", ATTN_FORMAT_NPY, padded_header(list->home, 65536), NULL);
    hostile_add(list, "npy_header_65537", ATTN_FORMAT_NPY, padded_header(list->home, 65537),
                "limit is 65536");
    for (size_t i = 0; i < sizeof npy_headers / sizeof *npy_headers; i++)
        hostile_add(list, npy_headers[i].name, ATTN_FORMAT_NPY,
                    npy_raw(list->home, npy_headers[i].header, 24), npy_headers[i].says);
    for (size_t i = 0; i < sizeof npy_descrs / sizeof *npy_descrs; i++)
        hostile_add(list, npy_descrs[i].name, ATTN_FORMAT_NPY,
                    npy_of(list->home, npy_descrs[i].descr, "False", "(2, 3)", 24),
                    npy_descrs[i].says);
    for (size_t i = 0; i < sizeof npy_starts / sizeof *npy_starts; i++) {
        blob b = blob_new(list->home);

        blob_put(&b, npy_starts[i].bytes, npy_starts[i].size);
        hostile_add(list, npy_starts[i].name, ATTN_FORMAT_NPY, b, npy_starts[i].says);
    }
}

/* --- safetensors ---------------------------------------------------------------------------- */

/* Headers with 8 bytes of data, which the tensor T covers. */
#define T "\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
#define E(dtype, shape, offsets)                                                                   \
    "{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static const struct {
    const char *name, *header, *says;
} st_headers[] = {
    {"st_sound", "{" T "}", NULL},
    {"st_sound_padded", "{" T "}      ", NULL},
    {"st_sound_brackets_in_text",
     "{\"__metadata__\":{\"a\\\\\":\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
     "[[[[[[[[[[[[\"}," T "}",
     NULL},
    {"st_sound_out_of_order",
     "{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},\"__metadata__\":{},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     NULL},
    {"st_sound_empty_at_every_edge",
     "{\"z\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[8,8]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
     "\"y\":{\"dtype\":\"U8\",\"shape\":[3,0],\"data_offsets\":[4,4]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]},"
     "\"x\":{\"dtype\":\"U8\",\"shape\":[0,281474976710656],\"data_offsets\":[0,0]}}",
     NULL},
    {"st_header_empty", "", "start with '{'"},
    {"st_leading_blank", " {" T "}", "start with '{'"},
    {"st_byte_order_mark", "\xef\xbb\xbf{" T "}", "start with '{'"},
    {"st_array", "[" T "]", "start with '{'"},
    {"st_left_open", "{" T, "JSON"},
    {"st_two_values", "{" T "}{}", "JSON"},
    {"st_text_after", "{" T "}x", "JSON"},
    {"st_comma_after", "{" T ",}", "JSON"},
    {"st_comment", "{" T "/* */}", "JSON"},
    {"st_single_quotes", "{'t':1}", "JSON"},
    {"st_nan", E("\"F32\"", "[NaN]", "[0,8]"), "JSON"},
    {"st_bad_utf8_name", "{\"\xff\":{}," T "}", "JSON"},
    {"st_overlong_utf8_name", "{\"\xc0\xaf\":{}," T "}", "JSON"},
    {"st_lone_surrogate", "{\"\\ud800\":{}," T "}", "JSON"},
    {"st_raw_newline_in_name", "{\"a\nb\":{}," T "}", "JSON"},
    {"st_nul_in_name", "{\"a\\u0000b\":{}," T "}", "JSON"},
    {"st_name_twice", "{" T "," T "}", "JSON: duplicate"},
    {"st_name_twice_escaped", "{" T ",\"\\u0074\":{}}", "JSON: duplicate"},
    {"st_field_twice",
     "{\"t\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
     "JSON: duplicate"},
    {"st_metadata_twice", "{\"__metadata__\":{},\"__metadata__\":{}," T "}", "JSON: duplicate"},
    {"st_name_empty", "{\"\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
     "names are"},
    {"st_name_control", "{\"a\\u0007\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
     "names are"},
    {"st_name_escape_sequence",
     "{\"\\u001b[2J\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "names are"},
    {"st_name_c1_control",
     "{\"\\u009b2J\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "names are"},
    {"st_entry_null", "{\"t\":null}", "expected exactly"},
    {"st_entry_array", "{\"t\":[]}", "expected exactly"},
    {"st_entry_text", "{\"t\":\"F32\"}", "expected exactly"},
    {"st_entry_empty", "{\"t\":{}}", "expected exactly"},
    {"st_no_dtype", "{\"t\":{\"shape\":[2],\"data_offsets\":[0,8]}}", "expected exactly"},
    {"st_unknown_field", "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}",
     "expected exactly"},
    {"st_field_of_other_name", "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"offsets\":[0,8]}}",
     "data_offsets"},
    {"st_all_null", "{\"__metadata__\":null,\"t\":null}", "expected exactly"},
    {"st_dtype_unknown", E("\"F33\"", "[2]", "[0,8]"), "dtype 'F33'"},
    {"st_dtype_lower_case", E("\"f32\"", "[2]", "[0,8]"), "dtype 'f32'"},
    {"st_dtype_f8", E("\"F8_E4M3\"", "[8]", "[0,8]"), "dtype 'F8_E4M3'"},
    {"st_dtype_sub_byte", E("\"F4\"", "[16]", "[0,8]"), "dtype 'F4'"},
    {"st_dtype_complex", E("\"C64\"", "[1]", "[0,8]"), "dtype 'C64'"},
    {"st_dtype_number", E("32", "[2]", "[0,8]"), "dtype must"},
    {"st_dtype_null", E("null", "[2]", "[0,8]"), "dtype must"},
    {"st_dtype_array", E("[\"F32\"]", "[2]", "[0,8]"), "dtype must"},
    {"st_shape_number", E("\"F32\"", "2", "[0,8]"), "shape must"},
    {"st_shape_object", E("\"F32\"", "{}", "[0,8]"), "shape must"},
    {"st_shape_null", E("\"F32\"", "null", "[0,8]"), "shape must"},
    {"st_shape_real", E("\"F32\"", "[2.0]", "[0,8]"), "a dimension"},
    {"st_shape_exponent", E("\"F32\"", "[2e0]", "[0,8]"), "a dimension"},
    {"st_shape_text", E("\"F32\"", "[\"2\"]", "[0,8]"), "a dimension"},
    {"st_shape_true", E("\"F32\"", "[true,2]", "[0,8]"), "a dimension"},
    {"st_shape_nested", E("\"F32\"", "[[2]]", "[0,8]"), "a dimension"},
    {"st_shape_negative", E("\"F32\"", "[-2]", "[0,8]"), "a dimension"},
    {"st_shape_two_negative", E("\"F32\"", "[-1,-2]", "[0,8]"), "a dimension"},
    {"st_shape_leading_zero", E("\"F32\"", "[02]", "[0,8]"), "JSON"},
    {"st_shape_plus", E("\"F32\"", "[+2]", "[0,8]"), "JSON"},
    {"st_shape_2_48_plus_1", E("\"F32\"", "[281474976710657]", "[0,8]"), "a dimension"},
    {"st_shape_2_63", E("\"F32\"", "[9223372036854775808]", "[0,8]"), "JSON"},
    {"st_shape_2_64_plus_2", E("\"F32\"", "[18446744073709551618]", "[0,8]"), "JSON"},
    {"st_shape_1e400", E("\"F32\"", "[1e400]", "[0,8]"), "JSON"},
    {"st_product_wraps_to_0", E("\"F32\"", "[4294967296,4294967296]", "[0,0]"), "larger than any"},
    {"st_product_wraps_to_8", E("\"F32\"", "[4294967296,4294967296,2]", "[0,8]"),
     "larger than any"},
    {"st_product_wraps_by_element", E("\"F64\"", "[281474976710656,8192]", "[0,0]"),
     "larger than any"},
    {"st_zero_times_huge", E("\"F32\"", "[0,281474976710656,281474976710656]", "[0,8]"),
     "another number"},
    {"st_huge_times_zero", E("\"F32\"", "[281474976710656,281474976710656,0]", "[0,8]"),
     "another number"},
    {"st_nine_dimensions", E("\"F32\"", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), "8 dimensions"},
    {"st_span_one_short", E("\"U8\"", "[8]", "[0,7]"), "another number"},
    {"st_span_one_long", E("\"U8\"", "[7]", "[0,8]"), "another number"},
    {"st_span_for_wider_type", E("\"F64\"", "[2]", "[0,8]"), "another number"},
    {"st_scalar_without_bytes", E("\"F32\"", "[]", "[0,0]"), "another number"},
    {"st_offsets_missing_end", E("\"F32\"", "[2]", "[0]"), "two whole numbers"},
    {"st_offsets_three", E("\"F32\"", "[2]", "[0,8,16]"), "two whole numbers"},
    {"st_offsets_object", E("\"F32\"", "[2]", "{\"0\":0,\"1\":8}"), "two whole numbers"},
    {"st_offsets_null", E("\"F32\"", "[2]", "null"), "two whole numbers"},
    {"st_offsets_real", E("\"F32\"", "[2]", "[0.0,8.0]"), "two whole numbers"},
    {"st_offsets_text", E("\"F32\"", "[2]", "[\"0\",\"8\"]"), "two whole numbers"},
    {"st_offsets_swapped", E("\"F32\"", "[2]", "[8,0]"), "two whole numbers"},
    {"st_offsets_negative", E("\"F32\"", "[2]", "[-8,0]"), "two whole numbers"},
    {"st_offsets_begin_past_end", E("\"F32\"", "[2]", "[9,17]"), "hole"},
    {"st_offsets_hole_of_1", E("\"U8\"", "[7]", "[1,8]"), "hole"},
    {"st_offsets_end_past_file", E("\"U8\"", "[9]", "[0,9]"), "past the end"},
    {"st_offsets_end_2_63", E("\"U8\"", "[281474976710656]", "[0,281474976710656]"),
     "past the end"},
    {"st_offsets_int64_max", E("\"U8\"", "[8]", "[9223372036854775799,9223372036854775807]"),
     "hole"},
    {"st_data_one_byte_left", E("\"U8\"", "[7]", "[0,7]"), "follow the last"},
    {"st_no_tensors_but_data", "{}", "follow the last"},
    {"st_two_overlap",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,5]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
     "overlap"},
    {"st_two_share_all",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
     "overlap"},
    {"st_nested",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}",
     "overlap"},
    {"st_hole_between",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
     "hole"},
    {"st_empty_in_the_middle",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[3,3]}}",
     "overlap"},
    {"st_empty_past_end",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[9,9]}}",
     "hole"},
    {"st_metadata_array", "{\"__metadata__\":[]," T "}", "__metadata__"},
    {"st_metadata_text", "{\"__metadata__\":\"x\"," T "}", "__metadata__"},
    {"st_metadata_null", "{\"__metadata__\":null," T "}", "__metadata__"},
    {"st_metadata_number_value", "{\"__metadata__\":{\"a\":1}," T "}", "string"},
    {"st_metadata_null_value", "{\"__metadata__\":{\"a\":null}," T "}", "string"},
    {"st_metadata_nested", "{\"__metadata__\":{\"a\":{\"b\":\"c\"}}," T "}", "string"},
    {"st_metadata_nul", "{\"__metadata__\":{\"a\":\"\\u0000\"}," T "}", "JSON"},
    {"st_metadata_looks_like_tensor",
     "{\"__metadata__\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "string"},
};

/* Lengths that do not fit what follows: 8 bytes, then a few. */
static const struct {
    const char *name;
    uint64_t length;
    const char *says;
} st_lengths[] = {
    {"st_length_one_past_end", 3, "past the end"},
    {"st_length_2_31", (uint64_t)1 << 31, "past the end"},
    {"st_length_2_32_plus_2", ((uint64_t)1 << 32) + 2, "past the end"},
    {"st_length_2_63", (uint64_t)1 << 63, "past the end"},
    {"st_length_wraps_with_8", UINT64_MAX - 7, "past the end"},
    {"st_length_max", UINT64_MAX, "past the end"},
    {"st_length_big_endian", (uint64_t)2 << 56, "past the end"},
    {"st_length_0", 0, "start with '{'"},
    {"st_length_1", 1, "JSON"},
};

static blob deep(arena *a, size_t depth)
{
    blob text = blob_new(a);

    blob_text(&text, "{\"t\":");
    blob_fill(&text, '[', depth - 1);
    blob_fill(&text, ']', depth - 1);
    blob_text(&text, "}");
    blob_put(&text, "", 1);
    return safetensors_of(a, (const char *)text.data, 0);
}

void hostile_safetensors(hostile_list *list)
{
    blob name = blob_new(list->home);

    for (size_t i = 0; i < sizeof st_headers / sizeof *st_headers; i++)
        hostile_add(list, st_headers[i].name, ATTN_FORMAT_SAFETENSORS,
                    safetensors_of(list->home, st_headers[i].header, 8), st_headers[i].says);
    for (size_t i = 0; i < sizeof st_lengths / sizeof *st_lengths; i++) {
        blob b = blob_new(list->home);

        blob_le(&b, st_lengths[i].length, 8);
        blob_text(&b, "{}");
        hostile_add(list, st_lengths[i].name, ATTN_FORMAT_SAFETENSORS, b, st_lengths[i].says);
    }
    hostile_add(list, "st_depth_64", ATTN_FORMAT_SAFETENSORS, deep(list->home, 64),
                "expected exactly");
    hostile_add(list, "st_depth_65", ATTN_FORMAT_SAFETENSORS, deep(list->home, 65),
                "nested deeper");
    hostile_add(list, "st_depth_100000", ATTN_FORMAT_SAFETENSORS, deep(list->home, 100000),
                "nested deeper");
    blob_text(&name, "{\"");
    blob_fill(&name, 'n', 4097);
    blob_text(&name, "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}");
    blob_put(&name, "", 1);
    hostile_add(list, "st_name_too_long", ATTN_FORMAT_SAFETENSORS,
                safetensors_of(list->home, (const char *)name.data, 8), "names are");
}
