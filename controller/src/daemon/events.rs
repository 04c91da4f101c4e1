//! What the planner tells people, in the log.

use crate::failover::Event;

/// Logs it.
pub(crate) fn log_event(event: &Event) {
    match event {
        Event::Moved {
            gateway,
            address,
            from,
            to,
            cause,
        } => tracing::info!(
            gateway,
            %address,
            from = from.as_deref(),
            to = to.as_deref(),
            cause = cause.map(tracing::field::display),
            "egress IP assigned"
        ),
        Event::Aborted {
            gateway,
            address,
            node,
        } => tracing::info!(
            gateway,
            %address,
            node = &**node,
            "egress IP stays: its owner is fit again before anybody else could take over"
        ),
        Event::Completed {
            gateway,
            address,
            node,
            phases,
        } => {
            let words = phases.iter().map(|(phase, time)| {
                format!("{} {:.1} ms", phase.as_str(), time.as_secs_f64() * 1e3)
            });
            let steps = words.collect::<Vec<_>>().join(", ");
            tracing::info!(gateway, %address, node = &**node, steps, "egress IP announced");
        }
        Event::Held { lost, of } => tracing::error!(
            lost,
            of,
            "too many nodes were lost at once: the controller suspects itself, moves are held"
        ),
        Event::Resumed => tracing::warn!("moves go on"),
        Event::Damped { node, hold } => tracing::warn!(
            node = &**node,
            hold = %probe_user::settings::HumanDuration(*hold),
            "the node falls too often: it gets no address until it has been AVAILABLE for long enough"
        ),
        Event::Released { node } => {
            tracing::info!(node = &**node, "the node may get addresses again");
        }
    }
}
