// Module CORE2: the functions with a domain, and registered strings.

#include <cstring>

#include "nvtx_callbacks.hpp"
#include "nvtx_event.hpp"

namespace trimtab::inject::nvtx {

namespace {

// Domains and strings are kept without an agent too: their handles must be good when one comes.

void* register_string_a(void* /*domain*/, const char* text) {
  return text == nullptr ? nullptr : to_pointer(recorder.strings.create(text, strnlen(text, record::kNameBytes + 1)));
}
void* register_string_w(void* /*domain*/, const wchar_t* text) {
  const WideText converted(text);
  return to_pointer(recorder.strings.create(converted.text(), converted.length()));
}

void* create_a(const char* name) {
  return name == nullptr ? nullptr : to_pointer(recorder.domains.create(name, strnlen(name, record::kNameBytes + 1)));
}
void* create_w(const wchar_t* name) {
  const WideText converted(name);
  return to_pointer(recorder.domains.create(converted.text(), converted.length()));
}
// The name stays: ranges may still be open, and the same name gets the same handle again.
void destroy(void* /*domain*/) {}

void mark_ex(void* domain, const EventAttributes* attributes) {
  if (recorder.session.recording()) recorder.mark(to_handle(domain), DecodedEvent(attributes).event());
}

std::uint64_t start_ex(void* domain, const EventAttributes* attributes) {
  if (!recorder.session.recording()) return 0;
  return recorder.start(to_handle(domain), DecodedEvent(attributes).event());
}
void range_end(void* /*domain*/, std::uint64_t id) {
  recorder.end(id);
}

int push_ex(void* domain, const EventAttributes* attributes) {
  if (!recorder.session.recording()) return kNotTracked;
  return recorder.push(to_handle(domain), DecodedEvent(attributes).event());
}
int range_pop(void* domain) {
  return recorder.pop(to_handle(domain));
}

const Callback kCallbacks[] = {
    {kDomainMarkEx, reinterpret_cast<Function>(mark_ex)},
    {kDomainRangeStartEx, reinterpret_cast<Function>(start_ex)},
    {kDomainRangeEnd, reinterpret_cast<Function>(range_end)},
    {kDomainRangePushEx, reinterpret_cast<Function>(push_ex)},
    {kDomainRangePop, reinterpret_cast<Function>(range_pop)},
    {kDomainRegisterStringA, reinterpret_cast<Function>(register_string_a)},
    {kDomainRegisterStringW, reinterpret_cast<Function>(register_string_w)},
    {kDomainCreateA, reinterpret_cast<Function>(create_a)},
    {kDomainCreateW, reinterpret_cast<Function>(create_w)},
    {kDomainDestroy, reinterpret_cast<Function>(destroy)},
};

}  // namespace

CallbackList core2_callbacks() {
  return {kCallbacks, kCallbacks + sizeof(kCallbacks) / sizeof(kCallbacks[0])};
}

}  // namespace trimtab::inject::nvtx
