/* hostile_zip.c: .npz archives that break one rule each.
 *
 * Every case starts from the same sound archive of two members and spoils one thing in it; the
 * sound one itself is opened by test_io_hostile.c, so that none is refused for another reason. */
#include "include/attn/io.h"
#include "tests/expect.h"
#include "tests/hostile.h"

#include <string.h>

/* Two members, "a" stored and "b" deflated. */
static zip_file_of sound(arena *home)
{
    zip_file_of z;
    blob a = npy_of(home, "'|u1'", "False", "(24,)", 24);
    blob b = npy_of(home, "'<f4'", "False", "(2, 3)", 24);

    memset(&z, 0, sizeof z);
    zip_add(&z, "a.npy", &a, 0);
    zip_add(&z, "b.npy", &b, 8);
    return z;
}

static void add(hostile_list *list, const char *name, const zip_file_of *z, const char *says)
{
    hostile_add(list, name, ATTN_FORMAT_NPZ, zip_bytes(list->home, z), says);
}

/* --- Names ---------------------------------------------------------------------------------- */

static void add_names(hostile_list *list)
{
    static const struct {
        const char *test, *name;
        size_t size;
        const char *says;
    } names[] = {
        {"zip_name_parent", "../x.npy", 8, "plain name"},
        {"zip_name_parent_inside", "x/../../y.npy", 13, "plain name"},
        {"zip_name_only_parent", "..", 2, "plain name"},
        {"zip_name_absolute", "/etc/x.npy", 10, "plain name"},
        {"zip_name_drive", "C:x.npy", 7, "plain name"},
        {"zip_name_backslash", "..\\x.npy", 8, "plain name"},
        {"zip_name_newline", "a\n.npy", 6, "plain name"},
        {"zip_name_escape", "\x1b[2J.npy", 8, "plain name"},
        {"zip_name_delete", "\x7f.npy", 5, "plain name"},
        {"zip_name_latin1", "\xe9.npy", 5, "plain name"},
        {"zip_name_overlong", "\xc0\xae\xc0\xae.npy", 8, "plain name"},
        {"zip_name_cut_utf8", "x.npy\xe2\x82", 7, "plain name"},
        {"zip_name_only_ending", ".npy", 4, "not a .npy file"},
        {"zip_name_other_ending", "x.txt", 5, "not a .npy file"},
        {"zip_name_no_ending", "x", 1, "not a .npy file"},
        {"zip_name_folder", "x/", 2, "not a .npy file"},
        {"zip_name_nul_and_more", "a.npy\0/../../x", 14, ""},
        {"zip_name_nul_at_end", "a.npy\0", 6, ""},
        {"zip_name_nul_first", "\0.npy", 5, ""},
        {"zip_name_twice", "b.npy", 5, ""},
        {"zip_name_empty", "", 0, ""},
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        zip_file_of z = sound(list->home);

        z.members[0].local.name = z.members[0].central.name = names[i].name;
        z.members[0].local.name_size = z.members[0].central.name_size = names[i].size;
        add(list, names[i].test, &z, names[i].says);
    }
}

/* --- One field of one header ---------------------------------------------------------------- */

enum { IN_LOCAL = 1, IN_CENTRAL = 2, IN_BOTH = 3 };

typedef struct field_case {
    const char *test;
    int member, where;
    int flags, method;         /* set if >= 0 */
    int64_t crc, packed, size; /* added */
    const char *says;
} field_case;

static void spoil(zip_says *s, const field_case *c)
{
    if (c->flags >= 0)
        s->flags = (uint16_t)c->flags;
    if (c->method >= 0)
        s->method = (uint16_t)c->method;
    s->crc = (uint32_t)(s->crc + c->crc);
    s->packed = (uint32_t)(s->packed + c->packed);
    s->size = (uint32_t)(s->size + c->size);
}

static void add_fields(hostile_list *list)
{
    static const field_case cases[] = {
        {"zip_encrypted", 0, IN_BOTH, 1, -1, 0, 0, 0, "encrypted"},
        {"zip_encrypted_strong", 0, IN_BOTH, 0x41, -1, 0, 0, 0, "encrypted"},
        {"zip_encrypted_only_in_header", 0, IN_LOCAL, 1, -1, 0, 0, 0, ""},
        {"zip_descriptor", 0, IN_BOTH, 8, -1, 0, 0, 0, "behind the data"},
        {"zip_descriptor_only_in_header", 0, IN_LOCAL, 8, -1, 0, 0, 0, ""},
        {"zip_method_shrink", 0, IN_BOTH, -1, 1, 0, 0, 0, "method 1"},
        {"zip_method_implode", 0, IN_BOTH, -1, 6, 0, 0, 0, "method 6"},
        {"zip_method_deflate64", 1, IN_BOTH, -1, 9, 0, 0, 0, "method 9"},
        {"zip_method_bzip2", 1, IN_BOTH, -1, 12, 0, 0, 0, "method 12"},
        {"zip_method_lzma", 1, IN_BOTH, -1, 14, 0, 0, 0, "method 14"},
        {"zip_method_zstd", 1, IN_BOTH, -1, 93, 0, 0, 0, "method 93"},
        {"zip_method_unknown", 1, IN_BOTH, -1, 0xfffe, 0, 0, 0, "method 65534"},
        {"zip_method_differs", 1, IN_LOCAL, -1, 0, 0, 0, 0, ""},
        {"zip_stored_called_deflated", 0, IN_BOTH, -1, 8, 0, 0, 0, "'a.npy'"},
        {"zip_deflated_called_stored", 1, IN_BOTH, -1, 0, 0, 0, 0, "two sizes"},
        {"zip_crc_of_stored", 0, IN_BOTH, -1, -1, 1, 0, 0, "CRC"},
        {"zip_crc_of_deflated", 1, IN_BOTH, -1, -1, 1, 0, 0, "CRC"},
        {"zip_crc_differs", 1, IN_LOCAL, -1, -1, 1, 0, 0, ""},
        {"zip_size_differs", 1, IN_LOCAL, -1, -1, 0, 0, 1, ""},
        {"zip_packed_differs", 1, IN_CENTRAL, -1, -1, 0, 1, 0, ""},
        {"zip_stored_sizes_differ", 0, IN_BOTH, -1, -1, 0, 0, 1, "two sizes"},
        {"zip_stored_both_sizes_long", 0, IN_BOTH, -1, -1, 0, 1, 1, ""},
        {"zip_stored_both_sizes_short", 0, IN_BOTH, -1, -1, 0, -1, -1, ""},
        {"zip_stored_2_gb", 0, IN_BOTH, -1, -1, 0, 1u << 31, 1u << 31, ""},
        {"zip_inflates_to_less", 1, IN_BOTH, -1, -1, 0, 0, 1, ""},
        {"zip_inflates_to_more", 1, IN_BOTH, -1, -1, 0, 0, -1, ""},
        {"zip_inflates_to_1", 1, IN_BOTH, -1, -1, 0, 0, -151, ""},
        {"zip_inflates_to_0", 1, IN_BOTH, -1, -1, 0, 0, -152, ""},
        {"zip_claims_1_mb_of_100_bytes", 1, IN_BOTH, -1, -1, 0, 0, 1 << 20, "impossible size"},
        {"zip_claims_3_gb_of_100_bytes", 1, IN_BOTH, -1, -1, 0, 0, (int64_t)3 << 30,
         "impossible size"},
        {"zip_packed_cut", 1, IN_BOTH, -1, -1, 0, -5, 0, ""},
        {"zip_packed_into_directory", 1, IN_BOTH, -1, -1, 0, 20, 0, ""},
        {"zip_packed_past_file", 1, IN_BOTH, -1, -1, 0, 1 << 20, 0, ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zip_file_of z = sound(list->home);

        if (cases[i].where & IN_LOCAL)
            spoil(&z.members[cases[i].member].local, &cases[i]);
        if (cases[i].where & IN_CENTRAL)
            spoil(&z.members[cases[i].member].central, &cases[i]);
        add(list, cases[i].test, &z, cases[i].says);
    }
}

/* --- Where things lie ----------------------------------------------------------------------- */

typedef struct place_case {
    const char *test;
    size_t prefix, gap, before_directory, before_end, suffix;
    int64_t shift, directory_shift, directory_grow;
    int entries;
    const char *says;
} place_case;

static void add_places(hostile_list *list)
{
    static const place_case cases[] = {
        {"zip_bytes_before", 1, 0, 0, 0, 0, 0, 0, 0, 0, ""},
        {"zip_kilobyte_before", 1024, 0, 0, 0, 0, 0, 0, 0, 0, ""},
        {"zip_gap_of_1", 0, 1, 0, 0, 0, 0, 0, 0, 0, "gap"},
        {"zip_gap_of_4096", 0, 4096, 0, 0, 0, 0, 0, 0, 0, "gap"},
        {"zip_gap_before_directory", 0, 0, 1, 0, 0, 0, 0, 0, 0, "between the last member"},
        {"zip_gap_before_end", 0, 0, 0, 1, 0, 0, 0, 0, 0, "directory does not end"},
        {"zip_trailing_1", 0, 0, 0, 0, 1, 0, 0, 0, 0, "end record"},
        {"zip_trailing_7", 0, 0, 0, 0, 7, 0, 0, 0, 0, "end record"},
        {"zip_trailing_8", 0, 0, 0, 0, 8, 0, 0, 0, 0, "end record"},
        {"zip_trailing_4096", 0, 0, 0, 0, 4096, 0, 0, 0, 0, "end record"},
        {"zip_member_one_early", 0, 0, 0, 0, 0, -1, 0, 0, 0, ""},
        {"zip_member_one_late", 0, 0, 0, 0, 0, 1, 0, 0, 0, ""},
        {"zip_member_past_file", 0, 0, 0, 0, 0, 1 << 20, 0, 0, 0, ""},
        {"zip_member_at_2_32", 0, 0, 0, 0, 0, 0xffffff00, 0, 0, 0, ""},
        {"zip_directory_one_early", 0, 0, 0, 0, 0, 0, -1, 0, 0, "directory does not end"},
        {"zip_directory_one_late", 0, 0, 0, 0, 0, 0, 1, 0, 0, "directory does not end"},
        {"zip_directory_early_and_long", 0, 0, 0, 0, 0, 0, -1, 1, 0, ""},
        {"zip_directory_late_and_short", 0, 0, 0, 0, 0, 0, 1, -1, 0, ""},
        {"zip_directory_past_file", 0, 0, 0, 0, 0, 0, 1 << 20, 0, 0, "directory does not end"},
        {"zip_directory_short", 0, 0, 0, 0, 0, 0, 0, -1, 0, "directory does not end"},
        {"zip_directory_size_wraps", 0, 0, 0, 0, 0, 0, 0, 0xffffff00, 0, "directory does not end"},
        {"zip_one_entry_less", 0, 0, 0, 0, 0, 0, 0, 0, -1, ""},
        {"zip_one_entry_more", 0, 0, 0, 0, 0, 0, 0, 0, 1, ""},
        {"zip_no_entries_claimed", 0, 0, 0, 0, 0, 0, 0, 0, -2, ""},
        {"zip_65534_entries", 0, 0, 0, 0, 0, 0, 0, 0, 65532, "more members"},
        {"zip_65535_entries_no_record", 0, 0, 0, 0, 0, 0, 0, 0, 65533, "64-bit"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const place_case *c = &cases[i];
        zip_file_of z = sound(list->home);

        z.prefix = c->prefix;
        z.members[1].gap = c->gap;
        z.members[1].shift = c->shift;
        z.before_directory = c->before_directory;
        z.before_end = c->before_end;
        z.suffix = c->suffix;
        z.directory_shift = c->directory_shift;
        z.directory_grow = c->directory_grow;
        z.entries = (uint32_t)((int)z.entries + c->entries);
        add(list, c->test, &z, c->says);
    }
}

/* A whole member inside the data of another: both are sound, and share bytes. */
static void add_nested(hostile_list *list)
{
    zip_file_of z, inner;
    blob small = npy_of(list->home, "'|u1'", "False", "(4,)", 4), outer;
    char shape[32];

    memset(&inner, 0, sizeof inner);
    zip_add(&inner, "b.npy", &small, 0);
    small = zip_bytes(list->home, &inner);
    small.size -= 46 + 5 + 22; /* without directory and end */

    snprintf(shape, sizeof shape, "(%zu,)", small.size);
    outer = npy_of(list->home, "'|u1'", "False", shape, 0);
    memset(&z, 0, sizeof z);
    z.members[1] = inner.members[0];
    z.members[1].hidden = 1;
    z.members[1].shift = (int64_t)(30 + 5 + outer.size);
    blob_put(&outer, small.data, small.size);
    zip_add(&z, "a.npy", &outer, 0);
    add(list, "zip_nothing_nested", &z, NULL); /* the outer one alone is sound */
    z.count = z.entries = 2;
    add(list, "zip_nested", &z, "more bytes than the file");

    /* Many names for the same bytes: the classic bomb. */
    z = sound(list->home);
    z.members[1] = z.members[0];
    z.members[1].hidden = 1;
    add(list, "zip_two_entries_one_member", &z, "");
}

/* --- Comments, end records, contents -------------------------------------------------------- */

static void add_ends(hostile_list *list)
{
    zip_file_of z = sound(list->home);
    blob whole = zip_bytes(list->home, &z), b;

    z.comment = "x";
    z.comment_size = 1;
    add(list, "zip_comment", &z, "end record");

    /* A second, complete archive in the comment of the first: which one is it? */
    z.comment = (const char *)whole.data;
    z.comment_size = whole.size;
    add(list, "zip_archive_in_comment", &z, "");
    z.comment = (const char *)whole.data + whole.size - 22;
    z.comment_size = 22;
    add(list, "zip_end_record_in_comment", &z, "");

    b = blob_new(list->home);
    blob_put(&b, whole.data, whole.size);
    b.data[b.size - 18] = 1; /* number of this disk */
    hostile_add(list, "zip_split_archive", ATTN_FORMAT_NPZ, b, "split");

    b = blob_new(list->home);
    blob_put(&b, whole.data, whole.size);
    b.data[b.size - 2] = 1; /* length of the comment, of which there is nothing */
    hostile_add(list, "zip_comment_missing", ATTN_FORMAT_NPZ, b, "has a comment");

    for (size_t i = 0; i < 3; i++) { /* place, size or count say: see the 64-bit record */
        static const size_t at[] = {6, 10, 14}, width[] = {4, 4, 4};
        static const char *const names[] = {"zip_64_bit_place_no_record",
                                            "zip_64_bit_size_no_record",
                                            "zip_64_bit_count_no_record"};

        b = blob_new(list->home);
        blob_put(&b, whole.data, whole.size);
        memset(b.data + b.size - at[i], 0xff, width[i]);
        hostile_add(list, names[i], ATTN_FORMAT_NPZ, b, "64-bit");
    }
    b = blob_new(list->home);
    blob_fill(&b, 'P', 21);
    hostile_add(list, "zip_shorter_than_end_record", ATTN_FORMAT_NPZ, b, "end record");
}

/* An end record behind a 64-bit one that claims `entries`, `size` and `place`. */
static void add_end64(hostile_list *list, const char *name, uint64_t entries, uint64_t size,
                      uint64_t place, uint64_t record, const char *says)
{
    blob b = blob_new(list->home);

    blob_put(&b, "PK\6\6", 4);
    blob_le(&b, 44, 8);
    blob_le(&b, 45, 2);
    blob_le(&b, 45, 2);
    blob_le(&b, 0, 8);
    blob_le(&b, entries, 8);
    blob_le(&b, entries, 8);
    blob_le(&b, size, 8);
    blob_le(&b, place, 8);
    blob_put(&b, "PK\6\7\0\0\0\0", 8);
    blob_le(&b, record, 8);
    blob_le(&b, 1, 4);
    blob_put(&b, "PK\5\6\0\0\0\0", 8);
    blob_fill(&b, 0xff, 12);
    blob_le(&b, 0, 2);
    hostile_add(list, name, ATTN_FORMAT_NPZ, b, says);
}

static void add_ends64(hostile_list *list)
{
    add_end64(list, "zip_64_sound_and_empty", 0, 0, 0, 0, NULL);
    add_end64(list, "zip_64_4_billion_entries", (uint64_t)1 << 32, 0, 0, 0, "more members");
    add_end64(list, "zip_64_entries_max", UINT64_MAX, 0, 0, 0, "more members");
    add_end64(list, "zip_64_entries_times_46_wraps", UINT64_MAX / 46 + 1, 0, 0, 0, "more members");
    add_end64(list, "zip_64_size_max", 0, UINT64_MAX, 0, 0, "does not end");
    add_end64(list, "zip_64_place_max", 0, 0, UINT64_MAX, 0, "does not end");
    add_end64(list, "zip_64_place_and_size_wrap", 0, 2, UINT64_MAX - 1, 0, "does not end");
    add_end64(list, "zip_64_record_elsewhere", 0, 0, 0, 1, "64-bit");
    add_end64(list, "zip_64_record_max", 0, 0, 0, UINT64_MAX, "64-bit");
    add_end64(list, "zip_64_record_wraps", 0, 0, 0, UINT64_MAX - 55, "64-bit");
}

static void add_content(hostile_list *list, const char *name, const blob *content, const char *says)
{
    zip_file_of z = sound(list->home);

    for (int method = 0; method <= 8; method += 8) {
        z.count = 1;
        zip_add(&z, "c.npy", content, (uint16_t)method);
        add(list, name, &z, says);
    }
}

static void add_contents(hostile_list *list)
{
    blob empty = blob_new(list->home), text = blob_new(list->home), noise = blob_new(list->home);
    blob b, object = npy_of(list->home, "'|O'", "False", "(2,)", 16);
    blob longer = npy_of(list->home, "'|u1'", "False", "(2,)", 3);
    blob shorter = npy_of(list->home, "'|u1'", "False", "(4,)", 3);
    zip_file_of z = sound(list->home);

    /* Numbers at odd places of the member: sound, but to be moved. */
    b = npy_raw(list->home, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3),  }\n", 24);
    CHECK(b.size % 2 == 1);
    add_content(list, "zip_sound_odd_header", &b, NULL);

    blob_text(&text, "these are not the arrays you are looking for");
    add_content(list, "zip_member_empty", &empty, "");
    add_content(list, "zip_member_text", &text, "mark");
    add_content(list, "zip_member_pickle", &object, "Python objects");
    add_content(list, "zip_member_trailing", &longer, "follow the data");
    add_content(list, "zip_member_short", &shorter, "takes 4 bytes");
    b = zip_bytes(list->home, &z);
    add_content(list, "zip_member_archive", &b, "mark");

    /* Deflate data that is none. */
    for (int i = 0; i < 64; i++)
        blob_le(&noise, (uint64_t)(i * 37 + 11) & 0xff, 1);
    z = sound(list->home);
    z.members[1].body = noise;
    z.members[1].local.packed = z.members[1].central.packed = 64;
    add(list, "zip_deflate_noise", &z, "'b.npy'");

    /* An extra field that is longer than it says, and one that claims 64-bit sizes. */
    z = sound(list->home);
    blob_put(&z.members[0].extra, "\1\0\xff\xff", 4);
    add(list, "zip_extra_too_long", &z, "");
    z = sound(list->home);
    blob_put(&z.members[0].extra, "\1\0\0\0", 4);
    z.members[0].local.size = z.members[0].central.size = UINT32_MAX;
    add(list, "zip_64_bit_size_without_value", &z, "");
    z = sound(list->home);
    blob_put(&z.members[0].extra, "\1\0\20\0", 4);
    blob_fill(&z.members[0].extra, 0xff, 16);
    z.members[0].local.size = z.members[0].central.size = UINT32_MAX;
    z.members[0].local.packed = z.members[0].central.packed = UINT32_MAX;
    add(list, "zip_64_bit_size_max", &z, "");
}

void hostile_npz(hostile_list *list)
{
    zip_file_of z = sound(list->home);

    add(list, "zip_sound", &z, NULL);
    add_names(list);
    add_fields(list);
    add_places(list);
    add_nested(list);
    add_ends(list);
    add_ends64(list);
    add_contents(list);
}
