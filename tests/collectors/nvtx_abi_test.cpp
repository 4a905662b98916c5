// Our declarations beside the real ones. Compiled only where NVTX 3's headers are found.

#include "nvtx_abi.hpp"

#include <nvtx3/nvToolsExt.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

namespace abi = trimtab::inject::nvtx;

static_assert(sizeof(abi::EventAttributes) == sizeof(nvtxEventAttributes_t));
static_assert(offsetof(abi::EventAttributes, size) == offsetof(nvtxEventAttributes_t, size));
static_assert(offsetof(abi::EventAttributes, category) == offsetof(nvtxEventAttributes_t, category));
static_assert(offsetof(abi::EventAttributes, payload_type) == offsetof(nvtxEventAttributes_t, payloadType));
static_assert(offsetof(abi::EventAttributes, payload) == offsetof(nvtxEventAttributes_t, payload));
static_assert(offsetof(abi::EventAttributes, message_type) == offsetof(nvtxEventAttributes_t, messageType));
static_assert(offsetof(abi::EventAttributes, message) == offsetof(nvtxEventAttributes_t, message));

static_assert(int{abi::kPayloadUint64} == int{NVTX_PAYLOAD_TYPE_UNSIGNED_INT64});
static_assert(int{abi::kPayloadInt64} == int{NVTX_PAYLOAD_TYPE_INT64});
static_assert(int{abi::kPayloadDouble} == int{NVTX_PAYLOAD_TYPE_DOUBLE});
static_assert(int{abi::kPayloadUint32} == int{NVTX_PAYLOAD_TYPE_UNSIGNED_INT32});
static_assert(int{abi::kPayloadInt32} == int{NVTX_PAYLOAD_TYPE_INT32});
static_assert(int{abi::kPayloadFloat} == int{NVTX_PAYLOAD_TYPE_FLOAT});
static_assert(int{abi::kMessageAscii} == int{NVTX_MESSAGE_TYPE_ASCII});
static_assert(int{abi::kMessageUnicode} == int{NVTX_MESSAGE_TYPE_UNICODE});
static_assert(int{abi::kMessageRegistered} == int{NVTX_MESSAGE_TYPE_REGISTERED});

static_assert(abi::kTableCallbacks == NVTX_ETID_CALLBACKS);
static_assert(abi::kTableVersion == NVTX_ETID_VERSIONINFO);
static_assert(int{abi::kModuleCore} == int{NVTX_CB_MODULE_CORE});
static_assert(int{abi::kModuleCore2} == int{NVTX_CB_MODULE_CORE2});
static_assert(sizeof(abi::CallbacksTable) == sizeof(NvtxExportTableCallbacks));
static_assert(offsetof(abi::CallbacksTable, get_module_function_table) ==
              offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable));
static_assert(sizeof(abi::VersionTable) == sizeof(NvtxExportTableVersionInfo));
static_assert(offsetof(abi::VersionTable, set_injection_version) ==
              offsetof(NvtxExportTableVersionInfo, SetInjectionNvtxVersion));
static_assert(std::is_same_v<abi::FunctionTable, NvtxFunctionTable>);
static_assert(std::is_same_v<abi::GetExportTable, NvtxGetExportTableFunc_t>);

static_assert(unsigned{abi::kMarkEx} == NVTX_CBID_CORE_MarkEx && unsigned{abi::kMarkA} == NVTX_CBID_CORE_MarkA);
static_assert(unsigned{abi::kMarkW} == NVTX_CBID_CORE_MarkW);
static_assert(unsigned{abi::kRangeStartEx} == NVTX_CBID_CORE_RangeStartEx);
static_assert(unsigned{abi::kRangeStartA} == NVTX_CBID_CORE_RangeStartA);
static_assert(unsigned{abi::kRangeStartW} == NVTX_CBID_CORE_RangeStartW);
static_assert(unsigned{abi::kRangeEnd} == NVTX_CBID_CORE_RangeEnd);
static_assert(unsigned{abi::kRangePushEx} == NVTX_CBID_CORE_RangePushEx);
static_assert(unsigned{abi::kRangePushA} == NVTX_CBID_CORE_RangePushA);
static_assert(unsigned{abi::kRangePushW} == NVTX_CBID_CORE_RangePushW);
static_assert(unsigned{abi::kRangePop} == NVTX_CBID_CORE_RangePop);
static_assert(unsigned{abi::kNameOsThreadA} == NVTX_CBID_CORE_NameOsThreadA);
static_assert(unsigned{abi::kNameOsThreadW} == NVTX_CBID_CORE_NameOsThreadW);
static_assert(unsigned{abi::kDomainMarkEx} == NVTX_CBID_CORE2_DomainMarkEx);
static_assert(unsigned{abi::kDomainRangeStartEx} == NVTX_CBID_CORE2_DomainRangeStartEx);
static_assert(unsigned{abi::kDomainRangeEnd} == NVTX_CBID_CORE2_DomainRangeEnd);
static_assert(unsigned{abi::kDomainRangePushEx} == NVTX_CBID_CORE2_DomainRangePushEx);
static_assert(unsigned{abi::kDomainRangePop} == NVTX_CBID_CORE2_DomainRangePop);
static_assert(unsigned{abi::kDomainRegisterStringA} == NVTX_CBID_CORE2_DomainRegisterStringA);
static_assert(unsigned{abi::kDomainRegisterStringW} == NVTX_CBID_CORE2_DomainRegisterStringW);
static_assert(unsigned{abi::kDomainCreateA} == NVTX_CBID_CORE2_DomainCreateA);
static_assert(unsigned{abi::kDomainCreateW} == NVTX_CBID_CORE2_DomainCreateW);
static_assert(unsigned{abi::kDomainDestroy} == NVTX_CBID_CORE2_DomainDestroy);

TEST_CASE("our declarations of NVTX's interface are those of the headers") {
  // The assertions above are the test; this one compares what they cannot: the layout of a filled structure.
  nvtxEventAttributes_t theirs{};
  theirs.version = NVTX_VERSION;
  theirs.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  theirs.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  theirs.payload.llValue = -5;
  theirs.messageType = NVTX_MESSAGE_TYPE_ASCII;
  theirs.message.ascii = "text";
  abi::EventAttributes ours{};
  std::memcpy(&ours, &theirs, sizeof(ours));
  CHECK(ours.size == sizeof(abi::EventAttributes));
  CHECK(ours.payload.int64 == -5);
  CHECK(std::string(ours.message.ascii) == "text");
}
