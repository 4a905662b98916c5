#pragma once

// The part of NVTX 3's binary interface between a program and an injected tool that we use, declared from its published
// layout (nvToolsExt.h and nvtxDetail/nvtxTypes.h, NVTX 3.0 to 3.2), because the library is built without NVTX headers.
// tests/collectors/nvtx_abi_test.cpp compares it with the real headers where there are any. The interface is versioned
// by adding to it: numbers and offsets stay.

#include <cstddef>
#include <cstdint>

namespace trimtab::inject::nvtx {

// Arguments of the program's NvtxGetExportTable function.
inline constexpr std::uint32_t kTableCallbacks = 1;
inline constexpr std::uint32_t kTableVersion = 3;
inline constexpr std::uint32_t kVersion = 3;

enum Module : int { kModuleCore = 1, kModuleCore2 = 5 };

// Indices into a module's table.
enum Core : unsigned {
  kMarkEx = 1,
  kMarkA = 2,
  kMarkW = 3,
  kRangeStartEx = 4,
  kRangeStartA = 5,
  kRangeStartW = 6,
  kRangeEnd = 7,
  kRangePushEx = 8,
  kRangePushA = 9,
  kRangePushW = 10,
  kRangePop = 11,
  kNameOsThreadA = 14,
  kNameOsThreadW = 15,
};
enum Core2 : unsigned {
  kDomainMarkEx = 1,
  kDomainRangeStartEx = 2,
  kDomainRangeEnd = 3,
  kDomainRangePushEx = 4,
  kDomainRangePop = 5,
  kDomainRegisterStringA = 10,
  kDomainRegisterStringW = 11,
  kDomainCreateA = 12,
  kDomainCreateW = 13,
  kDomainDestroy = 14,
};

using Function = void (*)();
using FunctionTable = Function**;
using GetExportTable = const void* (*)(std::uint32_t table);

struct CallbacksTable {
  std::size_t struct_size;
  int (*get_module_function_table)(int module, FunctionTable* table, unsigned* size);
};

struct VersionTable {
  std::size_t struct_size;
  std::uint32_t version;
  std::uint32_t reserved;
  void (*set_injection_version)(std::uint32_t version);
};

enum PayloadType : std::int32_t {
  kPayloadUint64 = 1,
  kPayloadInt64 = 2,
  kPayloadDouble = 3,
  kPayloadUint32 = 4,
  kPayloadInt32 = 5,
  kPayloadFloat = 6,
};
enum MessageType : std::int32_t { kMessageAscii = 1, kMessageUnicode = 2, kMessageRegistered = 3 };

struct EventAttributes {
  std::uint16_t version;
  std::uint16_t size;
  std::uint32_t category;
  std::int32_t color_type;
  std::uint32_t color;
  std::int32_t payload_type;
  std::int32_t reserved;
  union {
    std::uint64_t uint64;
    std::int64_t int64;
    double float64;
    std::uint32_t uint32;
    std::int32_t int32;
    float float32;
  } payload;
  std::int32_t message_type;
  union {
    const char* ascii;
    const wchar_t* unicode;
    void* registered;
  } message;
};
static_assert(sizeof(EventAttributes) == 48);

}  // namespace trimtab::inject::nvtx
