"""libattn_text.so by ctypes, for comparing it with Hugging Face's tokenizers."""
import ctypes as C
import os

SPECIAL, FRAME = 1, 2
SKIP_SPECIAL, LOSSY = 1, 2
BYTES, WORDS = 0, 1


class Error(C.Structure):
    _fields_ = [("status", C.c_int), ("offset", C.c_uint64), ("text", C.c_char * 240)]


class VocabOptions(C.Structure):
    _fields_ = [("struct_size", C.c_size_t), ("kind", C.c_int), ("size", C.c_int32),
                ("min_count", C.c_uint64), ("special", C.POINTER(C.c_char_p)),
                ("special_count", C.c_size_t), ("pattern", C.c_char_p), ("form", C.c_int),
                ("max_characters", C.c_int32)]


def load(build):
    global lib
    C.CDLL(os.path.join(build, "libattn.so"), mode=C.RTLD_GLOBAL)
    lib = C.CDLL(os.path.join(build, "libattn_text.so"))
    lib.attn_tokenizer_json.restype = C.c_void_p


def call(name, *args):
    error = Error()
    if getattr(lib, name)(*args, C.byref(error)):
        raise ValueError(error.text.decode())


class Tokenizer:
    def __init__(self, json=None, pointer=None):
        self.pointer = pointer or C.c_void_p()
        if json is not None:
            call("attn_tokenizer_open_memory", None, json, C.c_size_t(len(json)), None,
                 C.byref(self.pointer))
        self.encoder = C.c_void_p()
        call("attn_text_encoder_create", self.pointer, C.byref(self.encoder))
        self.decoders = {}

    def encode(self, text, flags=0):
        ids, count = C.POINTER(C.c_int32)(), C.c_size_t()
        call("attn_text_encode", self.encoder, text, C.c_size_t(len(text)), flags, C.byref(ids),
             C.byref(count))
        return ids[:count.value]

    def decode(self, ids, flags=0, cuts=()):
        """The text of a stream of ids that is cut at the places given."""
        if flags not in self.decoders:
            self.decoders[flags] = C.c_void_p()
            call("attn_text_decoder_create", self.pointer, flags, C.byref(self.decoders[flags]))
        edges, out = [0, *cuts, len(ids)], b""
        for i, (start, end) in enumerate(zip(edges, edges[1:])):
            part = (C.c_int32 * (end - start))(*ids[start:end])
            text, size = C.c_void_p(), C.c_size_t()
            call("attn_text_decode", self.decoders[flags], part, C.c_size_t(end - start),
                 int(i == len(edges) - 2), C.byref(text), C.byref(size))
            out += C.string_at(text, size.value)
        return out

    def json(self):
        size = C.c_size_t()
        return C.string_at(lib.attn_tokenizer_json(self.pointer, C.byref(size)), size.value)

    def close(self):
        lib.attn_text_encoder_destroy(self.encoder)
        for decoder in self.decoders.values():
            lib.attn_text_decoder_destroy(decoder)
        lib.attn_tokenizer_close(self.pointer)


def train(chunks, kind=BYTES, size=0, min_count=0, special=(), pattern=None, form=0,
          max_characters=0):
    names = (C.c_char_p * max(1, len(special)))(*[s.encode() for s in special])
    options = VocabOptions(C.sizeof(VocabOptions), kind, size, min_count, names, len(special),
                           pattern.encode() if pattern else None, form, max_characters)
    vocab, tokenizer = C.c_void_p(), C.c_void_p()
    call("attn_vocab_create", None, C.byref(options), C.byref(vocab))
    for chunk in chunks:
        call("attn_vocab_add", vocab, chunk, C.c_size_t(len(chunk)))
    call("attn_vocab_train", vocab, C.byref(tokenizer))
    lib.attn_vocab_destroy(vocab)
    return Tokenizer(pointer=tokenizer)
