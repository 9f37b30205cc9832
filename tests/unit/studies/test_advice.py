"""`labs.advise`: what a notebook shows of an advice."""

from __future__ import annotations

import pytest

import labs
from labs.errors import BadInput
from labs.guest.units import MIB


def test_advise_chart_has_the_point_advised_and_the_point_where_you_are() -> None:
    advised = labs.advise(100, 40, "6.12", sndbuf_bytes=MIB // 2, rcvbuf_bytes=MIB)
    figure = advised.chart
    line = advised.here.advice.line_bytes_s / MIB
    points = {trace.name: (trace.x[0], trace.y[0]) for trace in figure.data if len(trace.x) == 1}
    assert points["advised at least, receive buffer"] == (advised.here.advice.receive_bytes, line)
    assert points["advised at least, send buffer"] == (advised.here.advice.send_bytes, line)
    assert points["you, send buffer"] == (MIB // 2, advised.here.goodput_bytes_s / MIB)
    assert points["you, receive buffer"][0] == MIB
    curves = {trace.name: trace for trace in figure.data if len(trace.x) > 1}
    for curve in curves.values():
        assert curve.y[-1] == pytest.approx(line, rel=0.02) and curve.y[0] < 0.5 * line
        assert curve.x[0] < MIB // 2 < advised.here.advice.receive_bytes < curve.x[-1]
    assert "6.12" in figure.layout.meta["caption"] and "simulated" in figure.layout.meta["caption"]
    assert len(figure.layout.meta["table"]["rows"]) == len(curves["send buffer varies"].x)


def test_advise_words_say_what_limits_today_and_what_to_set() -> None:
    advised = labs.advise(100, 300, connections=50)
    assert "limited by the sender's wake-up" in repr(advised)
    assert "net/core/stream.c sk_stream_write_space()" in advised.words
    assert "50 connections may take up to" in advised.words
    assert f"tcp_wmem='4096 16384 {advised.here.advice.send_bytes}'" in advised.to_paste


def test_advise_refuses_a_path_without_a_round_trip() -> None:
    with pytest.raises(BadInput, match="nothing can be advised for an RTT of 0"):
        labs.advise(100, 0)
