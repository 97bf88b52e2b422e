"""Prints the test vectors of --sample's keyed hash, computed from its definition alone (crates/layerscope-corpus/src/filter.rs)."""

MASK = (1 << 64) - 1


def rotate(x, bits):
    return (x << bits | x >> (64 - bits)) & MASK


def siphash24(key, message):
    v = [key[0] ^ 0x736F6D6570736575, key[1] ^ 0x646F72616E646F6D, key[0] ^ 0x6C7967656E657261, key[1] ^ 0x7465646279746573]

    def rounds(count):
        for _ in range(count):
            v[0] = (v[0] + v[1]) & MASK
            v[1] = rotate(v[1], 13) ^ v[0]
            v[0] = rotate(v[0], 32)
            v[2] = (v[2] + v[3]) & MASK
            v[3] = rotate(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & MASK
            v[3] = rotate(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & MASK
            v[1] = rotate(v[1], 17) ^ v[2]
            v[2] = rotate(v[2], 32)

    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) & 255])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


assert siphash24((0x0706050403020100, 0x0F0E0D0C0B0A0908), bytes(range(15))) == 0xA129CA6149BE45E5  # the paper's vector
for seed, file, record in [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (42, 7, 123456789), (MASK, (1 << 32) - 1, MASK)]:
    message = file.to_bytes(8, "little") + record.to_bytes(8, "little")
    print(seed, file, record, hex(siphash24((seed, int.from_bytes(b"sampling", "little")), message)))
