#include "published/pickle_opcodes.hpp"

#include <algorithm>
#include <iterator>

namespace trimtab::published {

namespace {

struct RefusedOpcode {
  unsigned char byte;
  const char* name;
};

constexpr RefusedOpcode kRefused[] = {
    {'0', "POP"},
    {'1', "POP_MARK"},
    {'2', "DUP"},
    {'F', "FLOAT"},
    {'I', "INT"},
    {'L', "LONG"},
    {'P', "PERSID"},
    {'Q', "BINPERSID"},
    {'S', "STRING"},
    {'T', "BINSTRING"},
    {'U', "SHORT_BINSTRING"},
    {'V', "UNICODE"},
    {'d', "DICT"},
    {'g', "GET"},
    {'i', "INST"},
    {'l', "LIST"},
    {'o', "OBJ"},
    {'p', "PUT"},
    {0x81, "NEWOBJ"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {0x8b, "LONG4"},
    {0x8d, "BINUNICODE8"},
    {0x8e, "BINBYTES8"},
    {0x8f, "EMPTY_SET"},
    {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},
    {0x92, "NEWOBJ_EX"},
    {0x96, "BYTEARRAY8"},
    {0x97, "NEXT_BUFFER"},
    {0x98, "READONLY_BUFFER"},
};

}  // namespace

std::string opcode_name(unsigned char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  const std::string hexadecimal = std::string("0x") + kDigits[byte >> 4U] + kDigits[byte & 15U];
  const auto* const found = std::find_if(std::begin(kRefused), std::end(kRefused),
                                         [byte](const RefusedOpcode& one) { return one.byte == byte; });
  return found == std::end(kRefused) ? hexadecimal : std::string(found->name) + " (" + hexadecimal + ")";
}

}  // namespace trimtab::published
