#include "nvtx_callbacks.hpp"

#include <cstring>
#include <span>

#include "nvtx_event.hpp"

namespace trimtab::inject::nvtx {

namespace {

// Module CORE2: the functions with a domain, and registered strings. Domains and strings are kept without an agent too:
// their handles must be good when one comes.

void* create(HandleTable& table, const char* text) {
  return text == nullptr ? nullptr : to_pointer(table.create(text, strnlen(text, record::kNameBytes + 1)));
}
void* create(HandleTable& table, const wchar_t* text) {
  const WideText converted(text);
  return to_pointer(table.create(converted.text(), converted.length()));
}

void* register_string_a(void* /*domain*/, const char* text) {
  return create(recorder.strings, text);
}
void* register_string_w(void* /*domain*/, const wchar_t* text) {
  return create(recorder.strings, text);
}
void* create_a(const char* name) {
  return create(recorder.domains, name);
}
void* create_w(const wchar_t* name) {
  return create(recorder.domains, name);
}
// The name stays: ranges may still be open, and the same name gets the same handle again.
void destroy(void* /*domain*/) {}

void domain_mark_ex(void* domain, const EventAttributes* attributes) {
  if (recorder.wants()) recorder.mark(to_handle(domain), DecodedEvent(attributes).event());
}
std::uint64_t domain_start_ex(void* domain, const EventAttributes* attributes) {
  if (!recorder.wants()) return 0;
  return recorder.start(to_handle(domain), DecodedEvent(attributes).event());
}
void domain_range_end(void* /*domain*/, std::uint64_t id) {
  recorder.end(id);
}
int domain_push_ex(void* domain, const EventAttributes* attributes) {
  if (!recorder.wants()) return kNotTracked;
  return recorder.push(to_handle(domain), DecodedEvent(attributes).event());
}
int domain_range_pop(void* domain) {
  return recorder.pop(to_handle(domain));
}

// Module CORE: the functions without a domain, which are in the default domain.

constexpr std::uint32_t kDefaultDomain = 0;

Event named(const char* text) {
  return {.text = text};
}
Event named(const WideText& text) {
  return {.text = text.text(), .volatile_text = true};
}

void mark_ex(const EventAttributes* attributes) {
  domain_mark_ex(nullptr, attributes);
}
void mark_a(const char* text) {
  recorder.mark(kDefaultDomain, named(text));
}
void mark_w(const wchar_t* text) {
  recorder.mark(kDefaultDomain, named(WideText(text)));
}

std::uint64_t start_ex(const EventAttributes* attributes) {
  return domain_start_ex(nullptr, attributes);
}
std::uint64_t start_a(const char* text) {
  return recorder.start(kDefaultDomain, named(text));
}
std::uint64_t start_w(const wchar_t* text) {
  return recorder.start(kDefaultDomain, named(WideText(text)));
}
void range_end(std::uint64_t id) {
  recorder.end(id);
}

int push_ex(const EventAttributes* attributes) {
  return domain_push_ex(nullptr, attributes);
}
int push_a(const char* text) {
  return recorder.push(kDefaultDomain, named(text));
}
int push_w(const wchar_t* text) {
  return recorder.push(kDefaultDomain, named(WideText(text)));
}
int range_pop() {
  return recorder.pop(kDefaultDomain);
}

void name_thread_a(std::uint32_t thread, const char* name) {
  recorder.name_thread(thread, name);
}
void name_thread_w(std::uint32_t thread, const wchar_t* name) {
  recorder.name_thread(thread, WideText(name).text());
}

// One place in a module's table.
struct Callback {
  unsigned index;
  Function function;
};

const Callback kCore[] = {
    {kMarkEx, reinterpret_cast<Function>(mark_ex)},
    {kMarkA, reinterpret_cast<Function>(mark_a)},
    {kMarkW, reinterpret_cast<Function>(mark_w)},
    {kRangeStartEx, reinterpret_cast<Function>(start_ex)},
    {kRangeStartA, reinterpret_cast<Function>(start_a)},
    {kRangeStartW, reinterpret_cast<Function>(start_w)},
    {kRangeEnd, reinterpret_cast<Function>(range_end)},
    {kRangePushEx, reinterpret_cast<Function>(push_ex)},
    {kRangePushA, reinterpret_cast<Function>(push_a)},
    {kRangePushW, reinterpret_cast<Function>(push_w)},
    {kRangePop, reinterpret_cast<Function>(range_pop)},
    {kNameOsThreadA, reinterpret_cast<Function>(name_thread_a)},
    {kNameOsThreadW, reinterpret_cast<Function>(name_thread_w)},
};

const Callback kCore2[] = {
    {kDomainMarkEx, reinterpret_cast<Function>(domain_mark_ex)},
    {kDomainRangeStartEx, reinterpret_cast<Function>(domain_start_ex)},
    {kDomainRangeEnd, reinterpret_cast<Function>(domain_range_end)},
    {kDomainRangePushEx, reinterpret_cast<Function>(domain_push_ex)},
    {kDomainRangePop, reinterpret_cast<Function>(domain_range_pop)},
    {kDomainRegisterStringA, reinterpret_cast<Function>(register_string_a)},
    {kDomainRegisterStringW, reinterpret_cast<Function>(register_string_w)},
    {kDomainCreateA, reinterpret_cast<Function>(create_a)},
    {kDomainCreateW, reinterpret_cast<Function>(create_w)},
    {kDomainDestroy, reinterpret_cast<Function>(destroy)},
};

bool fill_module(const CallbacksTable& callbacks, Module module, std::span<const Callback> list) {
  FunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks.get_module_function_table(module, &table, &size) == 0 || table == nullptr) return false;
  for (const Callback& callback : list) {
    // An older program's table is shorter: what it lacks it cannot call.
    if (callback.index < size && table[callback.index] != nullptr) *table[callback.index] = callback.function;
  }
  return true;
}

}  // namespace

bool attach(GetExportTable get_export_table) {
  if (get_export_table == nullptr) return false;
  const auto* callbacks = static_cast<const CallbacksTable*>(get_export_table(kTableCallbacks));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(CallbacksTable)) return false;
  const auto* version = static_cast<const VersionTable*>(get_export_table(kTableVersion));
  if (version != nullptr && version->struct_size >= sizeof(VersionTable)) version->set_injection_version(kVersion);
  const bool core = fill_module(*callbacks, kModuleCore, kCore);
  const bool core2 = fill_module(*callbacks, kModuleCore2, kCore2);
  return core || core2;
}

}  // namespace trimtab::inject::nvtx
