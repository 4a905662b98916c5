#include "loss_window.hpp"

#include <cstring>

#include "collector_status.hpp"

namespace trimtab::inject::cupti {

void LossWindow::open(Session& session, const char* reason, std::uint64_t since_ns) {
  if (reason_ != nullptr && std::strcmp(reason_, reason) == 0) return;
  if (reason_ != nullptr) publish(session, since_ns);
  reason_ = reason;
  since_ns_ = since_ns;
}

void LossWindow::close(Session& session, std::uint64_t now_ns) {
  if (reason_ == nullptr) return;
  publish(session, now_ns);
  reason_ = nullptr;
}

void LossWindow::publish_long(Session& session, std::uint64_t now_ns) {
  if (reason_ == nullptr || now_ns < since_ns_ + kPieceNs) return;
  publish(session, now_ns);
  since_ns_ = now_ns;
}

void LossWindow::publish(Session& session, std::uint64_t end_ns) {
  if (!session.connected() || end_ns <= since_ns_) return;
  RecordFields fields;
  fields.kind = record::kWindow;
  fields.name = session.names().table->intern(reason_, std::strlen(reason_));
  fields.begin_ns = since_ns_;
  fields.end_ns = end_ns;
  fields.payload = collector_status.detail.load(std::memory_order_relaxed);
  session.ring().publish(fields);
}

}  // namespace trimtab::inject::cupti
